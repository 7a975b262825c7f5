//! One job under test, and helpers that describe events around it.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod checkpoint;
mod ended;
mod evicted;
mod faults;
mod finished;
mod placed;
mod preempted;
mod properties;
mod recovered;
mod stages;
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

use super::{Expired, Next, Observed, Standing, next};
use crate::observed::{Leave, PodPhase, PodView};
use crate::{Attempt, Certificate, Held, PLAN_TIME, Wish};

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

/// The wish to run an attempt of a job that waits since then and has had no failure.
fn runs(number: i64, submitted: i64) -> Wish<Attempt> {
    Wish::Run(Attempt {
        number,
        submitted: at(submitted),
        not_before: None,
        excluded: Vec::new(),
        suspects: Vec::new(),
        hurry: false,
        checkpoint: None,
        awaited: AwaitedPods {
            attempt: number,
            ..AwaitedPods::default()
        },
    })
}

/// The wish to end a job whose pods have nothing to save.
fn finishes(keep: bool) -> Wish<Attempt> {
    Wish::Finish { keep, hurry: true }
}

/// A job of two workers, created at second 0, and the cluster around it.
struct Case {
    second: i64,
    spec: TrainingJobSpec,
    status: TrainingJobStatus,
    standing: Standing,
    journal: PodGroupStatus,
    has_journal: bool,
    pods: BTreeMap<String, PodView>,
    lost: BTreeSet<String>,
    unhealthy: BTreeSet<String>,
    closed: BTreeSet<String>,
    leave: Leave,
    certificate: Option<Certificate>,
    evicted: Option<String>,
}

impl Case {
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
            standing: Standing::Runnable {
                compiled: "first".to_owned(),
            },
            journal: PodGroupStatus::default(),
            has_journal: true,
            pods: BTreeMap::new(),
            lost: BTreeSet::new(),
            unhealthy: BTreeSet::new(),
            closed: BTreeSet::new(),
            leave: Leave::Now,
            certificate: None,
            evicted: None,
        }
    }

    /// The spec of the current stage.
    fn of_stage(&self) -> Cow<'_, TrainingJobSpec> {
        let stage = self.status.stage.as_ref().map_or(1, |s| s.number);
        self.spec.of_stage(u32::try_from(stage).unwrap())
    }

    /// The first group of the current stage.
    fn group(&self) -> String {
        self.of_stage().task_groups[0].name.clone()
    }

    fn look(&self) -> Next {
        let spec = self.of_stage();
        next(Observed {
            now: at(self.second),
            created: at(0),
            generation: Some(1),
            uid: UID,
            spec: &spec,
            whole: &self.spec,
            status: &self.status,
            standing: &self.standing,
            queue: Some("default"),
            journal: &self.journal,
            has_journal: self.has_journal,
            pods: &self.pods,
            lost: &|node| self.lost.contains(node),
            unhealthy: &|node| {
                self.unhealthy
                    .contains(node)
                    .then(|| "GpuMemWatch".to_owned())
            },
            open: &|node| !self.closed.contains(node),
            leave: &|_| self.leave,
            certificate: self.certificate.as_ref(),
            evicted: self.evicted.as_deref(),
        })
    }

    /// Evaluates the job, and stores the new status.
    fn step(&mut self) -> Next {
        let next = self.look();
        if let Some(status) = &next.status {
            self.status = status.clone();
        }
        next
    }

    /// One step that must report this phase and reason.
    #[track_caller]
    fn says(&mut self, phase: JobPhase, reason: Reason) -> Next {
        let next = self.step();
        let said = next.status.as_ref().map(|s| (s.phase, s.reason));
        assert_eq!(said, Some((Some(phase), Some(reason))));
        next
    }

    /// The row of the table of conditions: T, F or - for each, in the table's order.
    fn row(&self) -> String {
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

    /// The journal plans this attempt, with one pod on each node.
    fn commit(&mut self, attempt: i64) {
        let group = self.group();
        let on = |node: &str| Assignment {
            group: group.clone(),
            node: node.to_owned(),
            count: 1,
            pods: Vec::new(),
        };
        let deadline = at(self.second).saturating_add(PLAN_TIME).unwrap();
        self.journal = PodGroupStatus {
            phase: Some(PodGroupPhase::Committing),
            plan: Some(Plan {
                hash: format!("plan-{attempt}"),
                attempt,
                generation: 1,
                compiled: match &self.standing {
                    Standing::Runnable { compiled } => compiled.clone(),
                    Standing::Held(_) => "first".to_owned(),
                },
                deadline: Some(Time(deadline)),
                groups: Vec::new(),
                assignments: vec![on("node-0"), on("node-1")],
                ..Plan::default()
            }),
            ..PodGroupStatus::default()
        };
    }

    /// Both pods of this attempt exist in this phase.
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
                    judged: Default::default(),
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
                    stuck: None,
                    deleting: false,
                    stops_too_late: false,
                    deleted: None,
                    disrupted: false,
                    checkpoint: None,
                };
                (format!("llm-{group}-{index}"), pod)
            })
            .collect();
    }

    /// The gang is preempted.
    fn preempt(&mut self) {
        self.journal.phase = Some(PodGroupPhase::Unwinding);
        self.journal.reason = Some(Reason::Preempted);
        self.journal.message = Some("for another".to_owned());
    }

    fn pod(&mut self, index: u32) -> &mut PodView {
        self.pods.get_mut(&format!("llm-worker-{index}")).unwrap()
    }

    /// No pod of the last plan is left.
    fn clear(&mut self) {
        self.journal = PodGroupStatus::default();
        self.pods.clear();
    }

    fn certify(&mut self, reason: Reason) {
        let message = "8 GPUs are missing".to_owned();
        self.certificate = Some(Certificate::waits(reason, message));
    }

    /// Policies forbid the running gang, and evict it.
    fn evict(&mut self) {
        self.hold(JobPhase::Refused, Reason::PolicyDenied);
        self.evicted = Some("stopped by a policy".to_owned());
    }

    /// Policies allow the gang.
    fn allow(&mut self) {
        self.standing = Standing::Runnable {
            compiled: "first".to_owned(),
        };
        self.evicted = None;
    }

    fn hold(&mut self, phase: JobPhase, reason: Reason) {
        let message = "because".to_owned();
        self.standing = Standing::Held(Held {
            phase,
            reason,
            message,
        });
    }
}
