//! The history of one gang, second by second, as Trellis writes it when nothing is wrong.

mod objects;
mod options;
mod orders;
mod waiting_gang;
mod write;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Finding, Health, Rule, Verifier};

pub(super) use objects::{leader_term, lease, set_phase};
pub(super) use options::{HistoryOptions, any_options, any_options_of_one_attempt};
pub(super) use waiting_gang::{WaitingGang, waiting_gang};
pub(super) use write::{Kind, Write};

use objects::{group, node, pending_group, preemptor_group, prepare_group, queue, task_groups};

/// Uid of the job.
pub(super) const JOB: &str = "uid-j";
/// Uid of the job that preempts it.
pub(super) const PREEMPTOR: &str = "uid-k";
/// Seconds until a failed pod runs again, longer than every bound of a rule.
const RESTART_BACKOFF: i64 = 700;
/// Healthy seconds after the last change, longer than every bound of a rule.
const AFTERMATH: i64 = 700;

/// The writes of a history in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct GangHistory {
    pub(super) writes: Vec<Write>,
    second: i64,
}

impl GangHistory {
    /// Writes a history without a fault.
    pub(super) fn new(options: HistoryOptions) -> Self {
        let mut history = Self::default();
        // The last node is for the surplus pod.
        for index in 0..=options.pods {
            history.write(Kind::Node, node(index));
        }
        history.write(Kind::LeaderTerm, leader_term(1));
        history.write(Kind::Queue, queue(options.pods));
        // Trellis may place gangs by the earlier quota for a while.
        history.pass(60);
        let mut job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "ns", "uid": JOB, "generation": 1},
            "spec": {"taskGroups": task_groups(options)},
        });
        history.write(Kind::Job, job.clone());
        set_phase(&mut job, "Queued", 1);
        history.pass(1).write(Kind::Job, job.clone());
        let mut attempt = 1;
        if options.has_stages {
            history.run_first_stage(options, &mut job);
            attempt = 2;
        }
        if options.is_rolled_back_first {
            let pods = history.commit(options, attempt, "rolled-back", options.pods - 1);
            history
                .pass(5)
                .stop(options, attempt, "rolled-back", pods, None);
        }
        history.run(options, &mut job, attempt);
        if options.has_second_attempt {
            let plan = format!("plan-{attempt}");
            let mut failed = history.pod_of(attempt, &plan, 0);
            failed["status"] = json!({"phase": "Failed"});
            history.pass(60).write(Kind::Pod, failed);
            set_phase(&mut job, "Restarting", attempt);
            history.write(Kind::Job, job.clone());
            let pods = (0..options.pods).collect();
            history.stop(options, attempt, &plan, pods, None);
            attempt += 1;
            set_phase(&mut job, "Queued", attempt);
            history.write(Kind::Job, job.clone());
            history.run(options, &mut job, attempt);
        }
        if options.is_preempted {
            history.pass(60).preempt(options, &mut job, attempt);
            attempt += 1;
            history.run(options, &mut job, attempt);
        }
        if options.restarts_pod {
            history.pass(60).restart_pod(&mut job, attempt);
        }
        if options.has_surplus {
            let pod = history.surplus_pod(options, attempt);
            history.pass(60).write(Kind::Pod, pod);
        }
        history.pass(60).end(options, &mut job, attempt);
        history
    }

    /// Runs the group `prepare` until it is complete. Its pod stays.
    fn run_first_stage(&mut self, options: HistoryOptions, job: &mut Value) {
        self.write(Kind::Group, prepare_group("Committing"));
        let mut pod = self.prepare_pod();
        self.pass(1).write(Kind::Pod, pod.clone());
        self.write(Kind::Group, prepare_group("Placed"));
        set_phase(job, "Running", 1);
        self.write(Kind::Job, job.clone());
        pod["status"]["phase"] = json!("Succeeded");
        self.pass(60).write(Kind::Pod, pod);
        set_phase(job, "Queued", 2);
        job["status"]["stage"] = json!({"number": 2, "of": 2, "firstAttempt": 2});
        self.pass(1).write(Kind::Job, job.clone());
        self.write(Kind::Group, prepare_group("Unwinding"));
        self.write(Kind::Group, pending_group(options));
    }

    fn prepare_pod(&self) -> Value {
        let mut pod = self.pod_of(1, "prepare-1", 0);
        pod["metadata"]["name"] = json!("j-prepare-0");
        pod["metadata"]["labels"]["trellis.dev/group"] = json!("prepare");
        pod
    }

    /// A pod fails, and is created again after a back-off, while the other pods go on.
    fn restart_pod(&mut self, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        let mut failed = self.pod_of(attempt, &plan, 0);
        failed["status"]["phase"] = json!("Failed");
        self.write(Kind::Pod, failed.clone());
        let awaited = |pods: Value| {
            json!({"awaitedPods": {
                "attempt": attempt, "round": 1, "countedRound": 1, "pods": pods,
            }})
        };
        let entry = json!([{"name": "worker", "indexes": "0", "round": 1}]);
        job["status"]["internal"] = awaited(entry);
        self.pass(1).write(Kind::Job, job.clone());
        self.delete(Kind::Pod, failed);
        let pod = self.restarted_pod(attempt);
        self.pass(RESTART_BACKOFF).write(Kind::Pod, pod);
        job["status"]["internal"] = awaited(json!([]));
        self.pass(1).write(Kind::Job, job.clone());
    }

    fn restarted_pod(&self, attempt: i64) -> Value {
        let mut pod = self.pod_of(attempt, &format!("plan-{attempt}"), 0);
        pod["metadata"]["uid"] = json!("uid-restarted");
        pod["metadata"]["annotations"]["trellis.dev/round"] = json!("1");
        pod
    }

    /// Returns a pod beyond the gang. It has a node of its own.
    fn surplus_pod(&self, options: HistoryOptions, attempt: i64) -> Value {
        let mut pod = self.pod_of(attempt, &format!("plan-{attempt}"), options.pods);
        pod["metadata"]["annotations"]["trellis.dev/epoch"] = json!("1");
        pod
    }

    /// The gang leaves for the gang `k`, which runs and ends.
    fn preempt(&mut self, options: HistoryOptions, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        let mut preemptor = job.clone();
        preemptor["metadata"]["name"] = json!("k");
        preemptor["metadata"]["uid"] = json!(PREEMPTOR);
        set_phase(&mut preemptor, "Queued", 1);
        self.write(Kind::Job, preemptor.clone());
        let group = |phase: &str| preemptor_group(options, phase);
        let mut nominated = group("Nominated");
        nominated["status"]["victims"] = json!([{
            "namespace": "ns", "name": "j", "uid": JOB, "plan": plan, "because": "LowerPriority",
        }]);
        self.pass(1).write(Kind::Group, nominated);
        set_phase(job, "Queued", attempt + 1);
        self.write(Kind::Job, job.clone());
        let pods = (0..options.pods).collect();
        self.stop(options, attempt, &plan, pods, Some("Preempted"));
        self.pass(1).write(Kind::Group, group("Committing"));
        let pods: Vec<Value> = (0..options.pods).map(|i| self.preemptor_pod(i)).collect();
        for pod in &pods {
            self.write(Kind::Pod, pod.clone());
        }
        self.write(Kind::Group, group("Placed"));
        set_phase(&mut preemptor, "Running", 1);
        self.write(Kind::Job, preemptor.clone());
        self.pass(60);
        let ended = |mut pod: Value| {
            pod["status"]["phase"] = json!("Succeeded");
            pod
        };
        for pod in &pods {
            self.write(Kind::Pod, ended(pod.clone()));
        }
        set_phase(&mut preemptor, "Complete", 1);
        self.pass(1).write(Kind::Job, preemptor.clone());
        self.write(Kind::Group, group("Finished"));
        self.pass(20).delete(Kind::Job, preemptor);
        self.delete(Kind::Group, group("Finished"));
        for pod in pods {
            self.delete(Kind::Pod, ended(pod));
        }
    }

    /// Writes a minimum runtime into the PodGroup that leaves.
    pub(super) fn set_min_runtime(&mut self, seconds: i64) {
        for write in &mut self.writes {
            if write.kind == Kind::Group && write.object["metadata"]["name"] == "j" {
                write.object["spec"]["minRuntimeSeconds"] = json!(seconds);
            }
        }
    }

    fn preemptor_pod(&self, index: usize) -> Value {
        let mut pod = self.pod_of(1, "plan-k", index);
        pod["metadata"]["name"] = json!(format!("k-worker-{index}"));
        pod["metadata"]["labels"]["trellis.dev/job-uid"] = json!(PREEMPTOR);
        pod
    }

    pub(super) fn pass(&mut self, seconds: i64) -> &mut Self {
        self.second += seconds;
        self
    }

    fn write(&mut self, kind: Kind, object: Value) {
        self.writes.push(Write {
            second: self.second,
            kind,
            is_deletion: false,
            is_listed: false,
            object,
        });
    }

    fn delete(&mut self, kind: Kind, object: Value) {
        self.write(kind, object);
        self.writes.last_mut().unwrap().is_deletion = true;
    }

    fn pod_of(&self, attempt: i64, plan: &str, index: usize) -> Value {
        json!({
            "metadata": {
                "name": format!("j-worker-{index}"), "namespace": "ns",
                "uid": format!("uid-{plan}-{index}"),
                "labels": {
                    "trellis.dev/job-uid": JOB, "trellis.dev/group": "worker",
                    "trellis.dev/index": index.to_string(),
                    "trellis.dev/attempt": attempt.to_string(),
                },
                "annotations": {"trellis.dev/plan": plan},
            },
            "spec": {
                "nodeName": format!("node-{index}"), "terminationGracePeriodSeconds": 30,
                "containers": [
                    {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
                ],
            },
            "status": {"phase": "Running"},
        })
    }

    /// Writes the plan, and creates `created` of its pods. Returns their indexes.
    fn commit(
        &mut self,
        options: HistoryOptions,
        attempt: i64,
        plan: &str,
        created: usize,
    ) -> Vec<usize> {
        let placeholders = match options.has_orders {
            true => self.order(options, attempt, plan),
            false => Vec::new(),
        };
        self.pass(1)
            .write(Kind::Group, group(options, attempt, plan, "Committing"));
        for placeholder in placeholders {
            self.delete(Kind::Pod, placeholder);
        }
        for index in 0..created {
            let pod = self.pod_of(attempt, plan, index);
            self.pass(1).write(Kind::Pod, pod);
        }
        (0..created).collect()
    }

    /// Rolls a plan back.
    fn stop(
        &mut self,
        options: HistoryOptions,
        attempt: i64,
        plan: &str,
        pods: Vec<usize>,
        reason: Option<&str>,
    ) {
        let mut unwinding = group(options, attempt, plan, "Unwinding");
        if let Some(reason) = reason {
            unwinding["status"]["reason"] = json!(reason);
        }
        self.write(Kind::Group, unwinding);
        let stopping = |mut pod: Value| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod
        };
        for index in &pods {
            let pod = stopping(self.pod_of(attempt, plan, *index));
            self.write(Kind::Pod, pod);
        }
        self.pass(options.stop_seconds);
        for index in &pods {
            let pod = stopping(self.pod_of(attempt, plan, *index));
            self.delete(Kind::Pod, pod);
        }
        self.write(Kind::Group, pending_group(options));
    }

    /// Places the gang, until its job runs.
    fn run(&mut self, options: HistoryOptions, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        self.commit(options, attempt, &plan, options.pods);
        self.write(Kind::Group, group(options, attempt, &plan, "Placed"));
        set_phase(job, "Running", attempt);
        self.write(Kind::Job, job.clone());
    }

    /// All pods succeed, and the user deletes the job. The surplus pod is stopped.
    fn end(&mut self, options: HistoryOptions, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        let ended = |mut pod: Value| {
            pod["status"]["phase"] = json!("Succeeded");
            pod
        };
        let mut pods: Vec<Value> = (0..options.pods)
            .map(|index| self.pod_of(attempt, &plan, index))
            .collect();
        if options.restarts_pod {
            pods[0] = self.restarted_pod(attempt);
        }
        let mut pods: Vec<Value> = pods.into_iter().map(ended).collect();
        for pod in &pods {
            self.write(Kind::Pod, pod.clone());
        }
        set_phase(job, "Complete", attempt);
        self.pass(1).write(Kind::Job, job.clone());
        let finished = group(options, attempt, &plan, "Finished");
        self.write(Kind::Group, finished.clone());
        if options.has_surplus {
            let surplus = self.surplus_pod(options, attempt);
            self.pass(options.stop_seconds).delete(Kind::Pod, surplus);
        }
        if options.has_stages {
            pods.push(ended(self.prepare_pod()));
        }
        self.pass(20).delete(Kind::Job, job.clone());
        self.delete(Kind::Group, finished);
        for pod in pods {
            self.delete(Kind::Pod, pod);
        }
    }

    /// Inserts writes before the one at `place`, in its second.
    pub(super) fn insert<const N: usize>(&mut self, place: usize, objects: [(Kind, Value); N]) {
        let second = self.writes[place].second;
        let writes = objects.map(|(kind, object)| Write {
            second,
            kind,
            is_deletion: false,
            is_listed: false,
            object,
        });
        self.writes.splice(place..place, writes);
    }

    /// Returns the places of the writes for which `matches` is true.
    pub(super) fn find(&self, matches: impl Fn(&Write) -> bool) -> Vec<usize> {
        let all = self.writes.iter().enumerate();
        all.filter(|(_, write)| matches(write))
            .map(|(place, _)| place)
            .collect()
    }

    /// Inserts the creation of a pod that bears a plan which no journal has. It takes the node and the
    /// second of the pod at `place`, and comes before it, or with `delay` 1 after it.
    pub(super) fn insert_pod_of_dropped_plan(&mut self, place: usize, delay: usize) {
        let mut late = self.writes[place].clone();
        late.object["metadata"]["name"] = json!("j-worker-late");
        late.object["metadata"]["uid"] = json!("late");
        late.object["metadata"]["annotations"]["trellis.dev/plan"] = json!("dropped");
        self.writes.insert(place + delay, late);
    }

    /// Judges the history, and the time after it. The leader renews its Lease throughout.
    pub(super) fn judge(&self, health: Health) -> Vec<Finding> {
        let start = Timestamp::UNIX_EPOCH;
        let mut verifier = Verifier::new(start);
        verifier.start();
        let mut writes = self.writes.iter().peekable();
        let mut transitions = 0;
        let mut revision = 0;
        let mut observe = |verifier: &mut Verifier, write: &Write| {
            revision += 1;
            verifier.observe(&write.change(revision));
        };
        for second in 0..=self.second + AFTERMATH {
            while let Some(write) = writes.next_if(|write| write.second <= second) {
                if write.kind == Kind::Lease {
                    transitions = write.object["spec"]["leaseTransitions"].as_i64().unwrap();
                }
                observe(&mut verifier, write);
            }
            if second % 5 == 0 {
                let renewed = Write {
                    second,
                    kind: Kind::Lease,
                    is_deletion: false,
                    is_listed: false,
                    object: lease(transitions),
                };
                observe(&mut verifier, &renewed);
            }
            verifier.pass_time(Timestamp::from_second(second).unwrap(), health);
        }
        verifier.take_findings()
    }

    /// Returns the rules that the history breaks.
    pub(super) fn broken_rules(&self) -> Vec<Rule> {
        let findings = self.judge(Health::Healthy);
        findings.iter().map(|finding| finding.rule).collect()
    }
}

/// Writes other messages of a job, `count` times and `pause` seconds apart, after the write at
/// `place`.
pub(super) fn write_messages(history: &mut GangHistory, place: usize, count: i64, pause: i64) {
    let status_entry = |second: i64| {
        json!([{
            "manager": "trellis-status", "operation": "Update", "subresource": "status",
            "time": Timestamp::from_second(second).unwrap(),
        }])
    };
    let first = history.writes[place].clone();
    for write in &mut history.writes[place + 1..] {
        write.second += count * pause;
    }
    history.second += count * pause;
    for number in 1..=count {
        let mut write = first.clone();
        write.second += number * pause;
        write.object["status"]["message"] = json!(format!("message {number}"));
        write.object["metadata"]["managedFields"] = status_entry(write.second);
        let place = place + usize::try_from(number).unwrap();
        history.writes.insert(place, write);
    }
}
