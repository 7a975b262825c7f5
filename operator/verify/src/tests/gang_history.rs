//! The history of one gang, second by second, as Trellis writes it when nothing is wrong.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};

use crate::{Change, Finding, Health, ObjectVersion, Rule, Verifier, Version};

/// Uid of the job.
pub(super) const JOB: &str = "uid-j";
/// Healthy seconds after the last change, longer than every bound of a rule.
const AFTERMATH: i64 = 600;

/// The events of the gang's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    /// Pods of the gang. Each needs a whole node.
    pub(super) pods: usize,
    /// The first plan is rolled back, and a second plan is carried out.
    pub(super) is_rolled_back_first: bool,
    /// A pod fails, and the job runs again in a second attempt.
    pub(super) has_second_attempt: bool,
    /// Seconds that a pod needs to stop.
    pub(super) stop_seconds: i64,
}

pub(super) fn any_plot() -> impl Strategy<Value = Plot> {
    (2_usize..6, any::<bool>(), any::<bool>(), 0_i64..30).prop_map(
        |(pods, is_rolled_back_first, has_second_attempt, stop_seconds)| Plot {
            pods,
            is_rolled_back_first,
            has_second_attempt,
            stop_seconds,
        },
    )
}

/// One write of the history.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) second: i64,
    pub(super) kind: Kind,
    pub(super) is_deletion: bool,
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
}

/// The writes of a history in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    pub(super) writes: Vec<Write>,
    second: i64,
}

impl Story {
    /// Writes a history without a fault.
    pub(super) fn new(plot: Plot) -> Self {
        let mut story = Self::default();
        for index in 0..plot.pods {
            story.write(Kind::Node, node(index));
        }
        story.write(Kind::Queue, queue(plot.pods));
        // Trellis may place gangs by the earlier quota for a while.
        story.pass(60);
        let mut job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "ns", "uid": JOB, "generation": 1},
            "spec": {"taskGroups": [
                {"name": "worker", "replicas": plot.pods, "image": "registry.example/train:1.0"},
            ]},
        });
        story.write(Kind::Job, job.clone());
        set_phase(&mut job, "Queued", 1);
        story.pass(1).write(Kind::Job, job.clone());
        let mut attempt = 1;
        if plot.is_rolled_back_first {
            let pods = story.commit(plot, attempt, "rolled-back", plot.pods - 1);
            story.pass(5).stop(plot, attempt, "rolled-back", pods);
        }
        story.run(plot, &mut job, attempt);
        if plot.has_second_attempt {
            let mut failed = story.pod_of(attempt, "plan-1", 0);
            failed["status"] = json!({"phase": "Failed"});
            story.pass(60).write(Kind::Pod, failed);
            set_phase(&mut job, "Restarting", 1);
            story.write(Kind::Job, job.clone());
            let pods = (0..plot.pods).collect();
            story.stop(plot, attempt, "plan-1", pods);
            attempt = 2;
            set_phase(&mut job, "Queued", 2);
            story.write(Kind::Job, job.clone());
            story.run(plot, &mut job, attempt);
        }
        story.pass(60).end(plot, &mut job, attempt);
        story
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
    fn commit(&mut self, plot: Plot, attempt: i64, plan: &str, created: usize) -> Vec<usize> {
        self.pass(1)
            .write(Kind::Group, group(plot, attempt, plan, "Committing"));
        for index in 0..created {
            let pod = self.pod_of(attempt, plan, index);
            self.pass(1).write(Kind::Pod, pod);
        }
        (0..created).collect()
    }

    /// Rolls a plan back.
    fn stop(&mut self, plot: Plot, attempt: i64, plan: &str, pods: Vec<usize>) {
        self.write(Kind::Group, group(plot, attempt, plan, "Unwinding"));
        let stopping = |mut pod: Value| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod
        };
        for index in &pods {
            let pod = stopping(self.pod_of(attempt, plan, *index));
            self.write(Kind::Pod, pod);
        }
        self.pass(plot.stop_seconds);
        for index in &pods {
            let pod = stopping(self.pod_of(attempt, plan, *index));
            self.delete(Kind::Pod, pod);
        }
        let mut pending = group(plot, attempt, plan, "Pending");
        pending["status"].as_object_mut().unwrap().remove("plan");
        self.write(Kind::Group, pending);
    }

    /// Places the gang, until its job runs.
    fn run(&mut self, plot: Plot, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        self.commit(plot, attempt, &plan, plot.pods);
        self.write(Kind::Group, group(plot, attempt, &plan, "Placed"));
        set_phase(job, "Running", attempt);
        self.write(Kind::Job, job.clone());
    }

    /// All pods succeed, and the user deletes the job.
    fn end(&mut self, plot: Plot, job: &mut Value, attempt: i64) {
        let plan = format!("plan-{attempt}");
        let ended = |mut pod: Value| {
            pod["status"]["phase"] = json!("Succeeded");
            pod
        };
        for index in 0..plot.pods {
            let pod = ended(self.pod_of(attempt, &plan, index));
            self.write(Kind::Pod, pod);
        }
        set_phase(job, "Complete", attempt);
        self.pass(1).write(Kind::Job, job.clone());
        let finished = group(plot, attempt, &plan, "Finished");
        self.write(Kind::Group, finished.clone());
        self.pass(20).delete(Kind::Job, job.clone());
        self.delete(Kind::Group, finished);
        for index in 0..plot.pods {
            let pod = ended(self.pod_of(attempt, &plan, index));
            self.delete(Kind::Pod, pod);
        }
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
            },
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
        "status": {"allocatable": {"nvidia.com/gpu": "8", "pods": "110"}},
    })
}

/// Returns the PodGroup with one pod on each node.
fn group(plot: Plot, attempt: i64, plan: &str, phase: &str) -> Value {
    let assignments: Vec<Value> = (0..plot.pods)
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
            "minMember": plot.pods,
            "groups": [
                {"name": "worker", "count": plot.pods, "resources": {"nvidia.com/gpu": "8"}},
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
