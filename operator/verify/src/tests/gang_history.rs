//! The history of one gang, second by second, as Trellis writes it when nothing is wrong.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use trellis_api::{LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

use crate::{
    Change, Finding, Health, ObjectName, ObjectVersion, Rule, UnreadObject, Verifier, Version,
};

/// Uid of the job.
pub(super) const JOB: &str = "uid-j";
/// Uid of the job that preempts it.
pub(super) const PREEMPTOR: &str = "uid-k";
/// Seconds until a failed pod runs again, longer than every bound of a rule.
const RESTART_BACKOFF: i64 = 700;
/// Healthy seconds after the last change, longer than every bound of a rule.
const AFTERMATH: i64 = 700;

/// The events of the gang's life. Each of them is allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryOptions {
    /// Pods of the gang. Each needs a whole node.
    pub(super) pods: usize,
    /// The first plan is rolled back, and a second plan is carried out.
    pub(super) is_rolled_back_first: bool,
    /// A pod fails, and the job runs again in a second attempt.
    pub(super) has_second_attempt: bool,
    /// A pod fails, and runs again while the other pods go on. Its back-off is long.
    pub(super) restarts_pod: bool,
    /// The job runs a group `prepare` before its other pods, in a stage of its own.
    pub(super) has_stages: bool,
    /// A pod beyond the gang joins it.
    pub(super) has_surplus: bool,
    /// The gang leaves for another gang, and runs again in a second attempt.
    pub(super) is_preempted: bool,
    /// Seconds that a pod needs to stop.
    pub(super) stop_seconds: i64,
}

impl HistoryOptions {
    /// A gang of this size that runs and ends.
    pub(super) fn plain(pods: usize) -> Self {
        Self {
            pods,
            is_rolled_back_first: false,
            has_second_attempt: false,
            restarts_pod: false,
            has_stages: false,
            has_surplus: false,
            is_preempted: false,
            stop_seconds: 5,
        }
    }
}

pub(super) fn any_options() -> impl Strategy<Value = HistoryOptions> {
    let gang = (2_usize..6, 0_i64..30);
    (gang, any::<[bool; 6]>()).prop_map(|((pods, stop_seconds), events)| {
        let [
            is_rolled_back_first,
            has_second_attempt,
            restarts_pod,
            has_stages,
            has_surplus,
            is_preempted,
        ] = events;
        HistoryOptions {
            pods,
            is_rolled_back_first,
            has_second_attempt,
            restarts_pod,
            has_stages,
            has_surplus,
            is_preempted,
            stop_seconds,
        }
    })
}

/// Random events without those that end an attempt.
pub(super) fn any_options_of_one_attempt() -> impl Strategy<Value = HistoryOptions> {
    any_options().prop_map(|options| HistoryOptions {
        has_second_attempt: false,
        has_stages: false,
        is_preempted: false,
        ..options
    })
}

/// One write of the history.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) second: i64,
    pub(super) kind: Kind,
    pub(super) is_deletion: bool,
    /// True if a list after a gap shows the write.
    pub(super) is_listed: bool,
    /// The object after the write, or its last version.
    pub(super) object: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Job,
    Group,
    Queue,
    Pod,
    Node,
    Namespace,
    Lease,
    LeaderTerm,
    /// A TrainingJob that does not decode.
    UnreadJob,
}

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
            history.pass(5).stop(options, attempt, "rolled-back", pods);
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
            history.stop(options, attempt, &plan, pods);
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
        self.stop(options, attempt, &plan, pods);
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

    fn preemptor_pod(&self, index: usize) -> Value {
        let mut pod = self.pod_of(1, "plan-k", index);
        pod["metadata"]["name"] = json!(format!("k-worker-{index}"));
        pod["metadata"]["labels"]["trellis.dev/job-uid"] = json!(PREEMPTOR);
        pod
    }

    fn pass(&mut self, seconds: i64) -> &mut Self {
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
        self.pass(1)
            .write(Kind::Group, group(options, attempt, plan, "Committing"));
        for index in 0..created {
            let pod = self.pod_of(attempt, plan, index);
            self.pass(1).write(Kind::Pod, pod);
        }
        (0..created).collect()
    }

    /// Rolls a plan back.
    fn stop(&mut self, options: HistoryOptions, attempt: i64, plan: &str, pods: Vec<usize>) {
        let mut unwinding = group(options, attempt, plan, "Unwinding");
        if options.is_preempted {
            unwinding["status"]["reason"] = json!("Preempted");
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

impl Write {
    fn unread_job(&self) -> Version<UnreadObject> {
        let metadata = &self.object["metadata"];
        let unread = Arc::new(UnreadObject {
            kind: "trainingjobs",
            name: ObjectName {
                namespace: metadata["namespace"].as_str().unwrap().to_owned(),
                name: metadata["name"].as_str().unwrap().to_owned(),
            },
            uid: metadata["uid"].as_str().unwrap().to_owned(),
        });
        match self.is_deletion {
            true => Version::Deleted(unread),
            false => Version::Stored(unread),
        }
    }

    pub(super) fn change(&self, revision: u64) -> Change {
        fn version<K: serde::de::DeserializeOwned>(write: &Write) -> Version<K> {
            let object = Arc::new(serde_json::from_value(write.object.clone()).unwrap());
            match write.is_deletion {
                true => Version::Deleted(object),
                false => Version::Stored(object),
            }
        }
        Change {
            time: Timestamp::from_second(self.second).unwrap(),
            revision,
            object: match self.kind {
                Kind::Job => ObjectVersion::Job(version::<TrainingJob>(self)),
                Kind::Group => ObjectVersion::Group(version::<PodGroup>(self)),
                Kind::Queue => ObjectVersion::Queue(version::<TrainingQueue>(self)),
                Kind::Pod => ObjectVersion::Pod(version::<Pod>(self)),
                Kind::Node => ObjectVersion::Node(version::<Node>(self)),
                Kind::Namespace => ObjectVersion::Namespace(version::<Namespace>(self)),
                Kind::Lease => ObjectVersion::Lease(version::<Lease>(self)),
                Kind::LeaderTerm => ObjectVersion::LeaderTerm(version::<LeaderTerm>(self)),
                Kind::UnreadJob => ObjectVersion::Unread(self.unread_job()),
            },
            is_listed: self.is_listed,
        }
    }
}

pub(super) fn lease(transitions: i64) -> Value {
    json!({
        "metadata": {"name": "trellis-operator", "namespace": "trellis-system"},
        "spec": {
            "holderIdentity": format!("leader-{transitions}"), "leaseDurationSeconds": 15,
            "leaseTransitions": transitions,
        },
    })
}

pub(super) fn leader_term(epoch: i64) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "LeaderTerm",
        "metadata": {"name": "trellis-operator", "namespace": "trellis-system"},
        "spec": {
            "epoch": epoch, "identity": format!("leader-{epoch}"), "since": "2026-01-01T00:00:00Z",
        },
    })
}

/// Returns a queue with quota for `pods` pods.
fn queue(pods: usize) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "research"},
        "spec": {"resourceGroups": [{
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{
                "name": "default",
                "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8 * pods}],
            }],
        }]},
    })
}

fn node(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("node-{index}")},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Returns the PodGroup with one pod on each node.
fn group(options: HistoryOptions, attempt: i64, plan: &str, phase: &str) -> Value {
    let assignments: Vec<Value> = (0..options.pods)
        .map(|index| json!({"group": "worker", "node": format!("node-{index}"), "count": 1}))
        .collect();
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {
            "name": "j", "namespace": "ns", "uid": "uid-g",
            "ownerReferences": [{
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                "uid": JOB, "controller": true,
            }],
        },
        "spec": {
            "minMember": options.pods,
            "groups": [
                {"name": "worker", "count": options.pods, "resources": {"nvidia.com/gpu": "8"}},
            ],
        },
        "status": {
            "phase": phase, "epoch": 1,
            "plan": {
                "hash": plan, "attempt": attempt, "generation": 1, "compiled": "",
                "queue": "research", "assignments": assignments,
                "groups": [{"name": "worker", "flavors": {"nvidia.com/gpu": "default"}}],
            },
        },
    })
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

/// Returns the history of a gang that ran and ended, and of a later gang that fits and is not
/// placed. `change` changes the job and the PodGroup of the later gang.
pub(super) fn waiting_gang(pods: usize, change: impl Fn(&mut WaitingGang)) -> GangHistory {
    let mut history = GangHistory::new(HistoryOptions::plain(pods));
    // The time is beyond the end of the first gang.
    let mut gang = WaitingGang {
        job: json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "later", "namespace": "ns", "uid": "uid-later", "generation": 1},
            "spec": {"taskGroups": [
                {"name": "worker", "replicas": pods, "image": "registry.example/train:1.0"},
            ]},
        }),
        group: group(HistoryOptions::plain(pods), 1, "", "Pending"),
        nodes: (0..pods).map(node).collect(),
    };
    set_phase(&mut gang.job, "Queued", 1);
    let status = &mut gang.job["status"];
    status["reason"] = json!("InsufficientCapacity");
    status["queue"] = json!("research");
    status["queuedTime"] = json!("2026-01-01T00:00:00Z");
    gang.group["status"] = json!({});
    let metadata = &mut gang.group["metadata"];
    metadata["name"] = json!("later");
    metadata["uid"] = json!("uid-group-later");
    metadata["ownerReferences"][0]["uid"] = json!("uid-later");
    change(&mut gang);
    history.pass(60);
    for node in gang.nodes {
        history.write(Kind::Node, node);
    }
    history.write(Kind::Job, gang.job);
    history.write(Kind::Group, gang.group);
    history
}

/// A gang that waits for its place.
pub(super) struct WaitingGang {
    pub(super) job: Value,
    pub(super) group: Value,
    /// The nodes, as they are then.
    pub(super) nodes: Vec<Value>,
}

/// Returns the PodGroup without a plan.
fn pending_group(options: HistoryOptions) -> Value {
    let mut pending = group(options, 1, "", "Pending");
    pending["status"].as_object_mut().unwrap().remove("plan");
    pending
}

/// Returns the PodGroup of the first stage.
fn prepare_group(phase: &str) -> Value {
    let mut group = group(HistoryOptions::plain(1), 1, "prepare-1", phase);
    group["spec"]["groups"][0]["name"] = json!("prepare");
    group["status"]["plan"]["groups"][0]["name"] = json!("prepare");
    group["status"]["plan"]["assignments"][0]["group"] = json!("prepare");
    group
}

/// Returns the PodGroup of the preemptor.
fn preemptor_group(options: HistoryOptions, phase: &str) -> Value {
    let mut group = group(options, 1, "plan-k", phase);
    group["metadata"]["name"] = json!("k");
    group["metadata"]["uid"] = json!("uid-group-k");
    group["metadata"]["ownerReferences"][0]["name"] = json!("k");
    group["metadata"]["ownerReferences"][0]["uid"] = json!(PREEMPTOR);
    group
}

fn task_groups(options: HistoryOptions) -> Value {
    let worker = json!({
        "name": "worker", "replicas": options.pods, "image": "registry.example/train:1.0",
    });
    let mut groups = vec![worker];
    if options.has_stages {
        groups[0]["dependsOn"] = json!([{"group": "prepare", "status": "Complete"}]);
        groups.insert(
            0,
            json!({"name": "prepare", "image": "registry.example/prepare:1.0"}),
        );
    }
    json!(groups)
}

pub(super) fn set_phase(job: &mut Value, phase: &str, attempt: i64) {
    let running = if phase == "Running" { "True" } else { "False" };
    job["status"] = json!({
        "observedGeneration": 1, "phase": phase, "attempt": attempt,
        "conditions": [{
            "type": "Running", "status": running, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
}
