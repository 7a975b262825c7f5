//! One job under test, and helpers that change its pods, journal and nodes.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod checkpoint;
mod ended;
mod faults;
mod finished;
mod placed;
mod policy_eviction;
mod preempted;
mod properties;
mod recovery;
mod replica_groups;
mod stages;
mod start_obstacles;
mod surplus;
mod suspended;
mod waiting;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::{AwaitedPods, JobPhase, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::{Assignment, Plan, PodGroupPhase, PodGroupStatus};

use super::{EvaluationResult, ExpiredObjects, JobReadiness, ObservedJob, evaluate};
use crate::observed::{EvictionDecision, PodPhase, PodView};
use crate::{DesiredAttempt, DesiredGang, GangExplanation, JobHold, PLAN_TIMEOUT};

const UID: &str = "job-uid";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn time(second: i64) -> Option<Time> {
    Some(Time(at(second)))
}

fn exit(code: i32) -> PodPhase {
    PodPhase::Failed {
        exit_code: Some(code),
        reason: "Error".to_owned(),
        at: None,
        last_line: None,
    }
}

/// Returns the desired run of an attempt. Its job was submitted at that second and has not failed.
fn desired_run(number: i64, submitted: i64) -> DesiredGang<DesiredAttempt> {
    DesiredGang::Run(DesiredAttempt {
        number,
        submitted: at(submitted),
        not_before: None,
        excluded_nodes: Vec::new(),
        suspect_nodes: Vec::new(),
        hurry: false,
        checkpoint: None,
        awaited: AwaitedPods {
            attempt: number,
            ..AwaitedPods::default()
        },
    })
}

/// Returns the desired end of a job whose pods have no checkpoint to save.
fn desired_finish(keep: bool) -> DesiredGang<DesiredAttempt> {
    DesiredGang::Finish { keep, hurry: true }
}

/// A job of two workers, created at second 0, and the cluster around it.
struct JobCase {
    second: i64,
    spec: TrainingJobSpec,
    status: TrainingJobStatus,
    readiness: JobReadiness,
    journal: PodGroupStatus,
    has_journal: bool,
    pods: BTreeMap<String, PodView>,
    lost_nodes: BTreeSet<String>,
    unhealthy_nodes: BTreeSet<String>,
    closed_nodes: BTreeSet<String>,
    eviction_decision: EvictionDecision,
    explanation: Option<GangExplanation>,
    eviction_reason: Option<String>,
}

impl JobCase {
    /// Adds the fields of `more` to the spec, beside the task group.
    fn new(more: Value) -> Self {
        let mut spec = json!({"taskGroups": [{
            "name": "worker", "replicas": 2, "gpus": 8, "image": "train:1",
            "resources": {"limits": {"cpu": "96", "memory": "1Ti"}},
        }]});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        Self {
            second: 0,
            spec: serde_json::from_value(spec).unwrap(),
            status: TrainingJobStatus::default(),
            readiness: JobReadiness::Runnable {
                compiled: "first".to_owned(),
            },
            journal: PodGroupStatus::default(),
            has_journal: true,
            pods: BTreeMap::new(),
            lost_nodes: BTreeSet::new(),
            unhealthy_nodes: BTreeSet::new(),
            closed_nodes: BTreeSet::new(),
            eviction_decision: EvictionDecision::Now,
            explanation: None,
            eviction_reason: None,
        }
    }

    /// Returns the spec of the current stage.
    fn stage_spec(&self) -> Cow<'_, TrainingJobSpec> {
        let stage = self.status.stage.as_ref().map_or(1, |s| s.number);
        self.spec.for_stage(u32::try_from(stage).unwrap())
    }

    /// Returns the first group of the current stage.
    fn group(&self) -> String {
        self.stage_spec().task_groups[0].name.clone()
    }

    fn evaluate(&self) -> EvaluationResult {
        let spec = self.stage_spec();
        evaluate(ObservedJob {
            now: at(self.second),
            created: at(0),
            generation: Some(1),
            uid: UID,
            spec: &spec,
            whole_spec: &self.spec,
            status: &self.status,
            readiness: &self.readiness,
            queue: Some("default"),
            journal: &self.journal,
            has_journal: self.has_journal,
            pods: &self.pods,
            is_lost: &|node| self.lost_nodes.contains(node),
            unhealthy_reason: &|node| {
                self.unhealthy_nodes
                    .contains(node)
                    .then(|| "GpuMemWatch".to_owned())
            },
            is_open: &|node| !self.closed_nodes.contains(node),
            eviction_decision: &|_| self.eviction_decision,
            explanation: self.explanation.as_ref(),
            eviction_reason: self.eviction_reason.as_deref(),
        })
    }

    /// Evaluates the job, and stores the new status.
    fn evaluate_and_store(&mut self) -> EvaluationResult {
        let next = self.evaluate();
        if let Some(status) = &next.status {
            self.status = status.clone();
        }
        next
    }

    /// Evaluates the job, and expects this phase and reason.
    #[track_caller]
    fn expect_status(&mut self, phase: JobPhase, reason: Reason) -> EvaluationResult {
        let next = self.evaluate_and_store();
        let reported = next.status.as_ref().map(|s| (s.phase, s.reason));
        assert_eq!(reported, Some((Some(phase), Some(reason))));
        next
    }

    /// Returns the row of the table of conditions: T, F or - for each, in the table's order.
    fn condition_row(&self) -> String {
        let word = |status: &str| match status {
            "True" => 'T',
            "False" => 'F',
            _ => '-',
        };
        self.status
            .conditions
            .iter()
            .map(|c| word(&c.status))
            .collect()
    }

    fn attempt(&self) -> i64 {
        self.status.attempt.unwrap_or(1)
    }

    /// Makes the journal plan this attempt, with one pod on each node.
    fn commit(&mut self, attempt: i64) {
        let group = self.group();
        let on = |node: &str| Assignment {
            group: group.clone(),
            node: node.to_owned(),
            count: 1,
            pods: Vec::new(),
        };
        let deadline = at(self.second).saturating_add(PLAN_TIMEOUT).unwrap();
        self.journal = PodGroupStatus {
            phase: Some(PodGroupPhase::Committing),
            plan: Some(Plan {
                hash: format!("plan-{attempt}"),
                attempt,
                generation: 1,
                compiled: match &self.readiness {
                    JobReadiness::Runnable { compiled } => compiled.clone(),
                    JobReadiness::OnHold(_) => "first".to_owned(),
                },
                deadline: Some(Time(deadline)),
                groups: Vec::new(),
                assignments: vec![on("node-0"), on("node-1")],
                ..Plan::default()
            }),
            ..PodGroupStatus::default()
        };
    }

    /// Adds both pods of this attempt, in this phase.
    fn place(&mut self, attempt: i64, phase: &PodPhase) {
        let group = self.group();
        self.commit(attempt);
        self.journal.phase = Some(PodGroupPhase::Placed);
        self.pods = (0..2)
            .map(|index| {
                let pod = PodView {
                    uid: format!("pod-{attempt}-{index}"),
                    job_uid: UID.to_owned(),
                    is_owned: true,
                    judged_spec: Default::default(),
                    group: group.clone(),
                    index,
                    attempt,
                    round: 0,
                    plan: format!("plan-{attempt}"),
                    epoch: None,
                    ready: *phase == PodPhase::Running,
                    created: None,
                    node: Some(format!("node-{index}")),
                    phase: phase.clone(),
                    start_obstacle: None,
                    deleting: false,
                    has_overlong_grace: false,
                    deletion_requested: None,
                    is_disrupted: false,
                    checkpoint: None,
                };
                (format!("llm-{group}-{index}"), pod)
            })
            .collect();
    }

    /// Makes the journal record a preemption.
    fn preempt(&mut self) {
        self.journal.phase = Some(PodGroupPhase::Unwinding);
        self.journal.reason = Some(Reason::Preempted);
        self.journal.message = Some("for another".to_owned());
    }

    fn pod(&mut self, index: u32) -> &mut PodView {
        self.pods.get_mut(&format!("llm-worker-{index}")).unwrap()
    }

    /// Removes the plan and its pods.
    fn clear(&mut self) {
        self.journal = PodGroupStatus::default();
        self.pods.clear();
    }

    fn set_explanation(&mut self, reason: Reason) {
        let message = "8 GPUs are missing".to_owned();
        self.explanation = Some(GangExplanation::waiting(reason, message));
    }

    /// Makes policies forbid and evict the running gang.
    fn evict_by_policy(&mut self) {
        self.hold_job(JobPhase::Refused, Reason::PolicyDenied);
        self.eviction_reason = Some("stopped by a policy".to_owned());
    }

    /// Makes policies allow the gang.
    fn allow_by_policy(&mut self) {
        self.readiness = JobReadiness::Runnable {
            compiled: "first".to_owned(),
        };
        self.eviction_reason = None;
    }

    fn hold_job(&mut self, phase: JobPhase, reason: Reason) {
        let message = "because".to_owned();
        self.readiness = JobReadiness::OnHold(JobHold {
            phase,
            reason,
            message,
        });
    }
}
