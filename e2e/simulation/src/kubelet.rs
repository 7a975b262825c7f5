//! The kubelets: they start, end and stop pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api::names;

use crate::access::{Access, Target};
use crate::random::RandomSequence;
use crate::script::{JobScript, KubeletDelays};

/// A pod without an end of its own runs longer than any script.
const ENDLESS: Duration = Duration::from_secs(100_000);

/// Work of a kubelet on one pod, to be done later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KubeletWork {
    Start(PodIdentity),
    End(PodIdentity),
    /// Deletes the object of a pod whose containers have ended.
    Remove(PodIdentity),
}

impl KubeletWork {
    /// Returns the pod.
    pub(crate) fn pod(&self) -> &PodIdentity {
        match self {
            Self::Start(pod) | Self::End(pod) | Self::Remove(pod) => pod,
        }
    }
}

/// One incarnation of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodIdentity {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl PodIdentity {
    fn of(pod: &Value) -> Self {
        let text = |field: &str| {
            pod["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
        }
    }

    fn target(&self) -> Target {
        Target::namespaced("api/v1", "pods", &self.namespace, &self.name)
    }

    /// Returns the pod, if it is still this incarnation.
    fn read(&self, access: &mut Access<'_>) -> Option<Value> {
        let pod = access.get(&self.target())?;
        (pod["metadata"]["uid"] == self.uid.as_str()).then_some(pod)
    }
}

/// All kubelets of the cluster.
#[derive(Debug)]
pub(crate) struct Kubelets {
    delays: KubeletDelays,
    jobs: BTreeMap<String, JobScript>,
    random: RandomSequence,
}

impl Kubelets {
    pub(crate) fn new(seed: u64, delays: KubeletDelays, jobs: &[JobScript]) -> Self {
        let jobs = jobs.iter().map(|job| (job.name.clone(), job.clone()));
        Self {
            delays,
            jobs: jobs.collect(),
            random: RandomSequence::new(seed, "kubelets"),
        }
    }

    /// Takes in the new state of a pod. Returns what a kubelet does, and after which time.
    pub(crate) fn notice(
        &mut self,
        before: Option<&Value>,
        pod: &Value,
    ) -> Option<(Duration, KubeletWork)> {
        let is_bound = |pod: &Value| !pod["spec"]["nodeName"].is_null();
        let is_leaving = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        if !is_bound(pod) {
            return None;
        }
        let identity = PodIdentity::of(pod);
        if is_leaving(pod) && !before.is_some_and(is_leaving) {
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
            let stop = self.random.log_uniform_millis(20, self.delays.stop.max(21));
            let stop = stop.min(Duration::from_secs(grace.unwrap_or(30)));
            return Some((stop, KubeletWork::Remove(identity)));
        }
        if !before.is_some_and(is_bound) {
            let start = self
                .random
                .log_uniform_millis(20, self.delays.start.max(21));
            return Some((start, KubeletWork::Start(identity)));
        }
        None
    }

    /// Does the work. Returns what follows.
    pub(crate) fn act(
        &mut self,
        work: KubeletWork,
        access: &mut Access<'_>,
    ) -> Option<(Duration, KubeletWork)> {
        let now = access.now();
        match work {
            KubeletWork::Start(identity) => {
                let pod = identity.read(access)?;
                if pod["status"]["phase"] != "Pending"
                    || !pod["metadata"]["deletionTimestamp"].is_null()
                {
                    return None;
                }
                access.patch_status(&identity.target(), &running_status(&pod, now));
                let run = self.run_time(&pod);
                Some((run, KubeletWork::End(identity)))
            }
            KubeletWork::End(identity) => {
                let pod = identity.read(access)?;
                if pod["status"]["phase"] == "Running" {
                    let status = ended_status(&pod, self.exit_code(&pod), now);
                    access.patch_status(&identity.target(), &status);
                }
                None
            }
            KubeletWork::Remove(identity) => {
                let pod = identity.read(access)?;
                if matches!(pod["status"]["phase"].as_str(), Some("Running" | "Pending")) {
                    let status = ended_status(&pod, 143, now);
                    access.patch_status(&identity.target(), &status);
                }
                access.delete_now(&identity.target(), &identity.uid);
                None
            }
        }
    }

    fn script(&self, pod: &Value) -> Option<(&JobScript, usize)> {
        let labels = &pod["metadata"]["labels"];
        let job = self.jobs.get(labels[names::JOB].as_str()?)?;
        let attempt: usize = labels[names::ATTEMPT].as_str()?.parse().ok()?;
        Some((job, attempt))
    }

    fn run_time(&self, pod: &Value) -> Duration {
        let Some((job, attempt)) = self.script(pod) else {
            return ENDLESS;
        };
        // The other ranks wait for the one that fails.
        if attempt <= job.failures && !is_first_rank(pod) {
            return ENDLESS;
        }
        let seconds = job.run_seconds.get(attempt - 1).or(job.run_seconds.last());
        seconds.copied().map_or(ENDLESS, Duration::from_secs)
    }

    fn exit_code(&self, pod: &Value) -> i32 {
        let script = self.script(pod);
        let fails = script.is_some_and(|(job, attempt)| attempt <= job.failures);
        i32::from(fails && is_first_rank(pod))
    }
}

fn is_first_rank(pod: &Value) -> bool {
    pod["metadata"]["labels"][names::INDEX] == "0"
}

fn containers(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = pod["spec"]["containers"].as_array();
    let containers = containers.into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str())
}

fn conditions(is_ready: bool, now: Timestamp) -> Value {
    let status = if is_ready { "True" } else { "False" };
    let condition = |type_: &str| json!({"type": type_, "status": status, "lastTransitionTime": to_seconds(now)});
    ["PodReadyToStartContainers", "ContainersReady", "Ready"]
        .map(condition)
        .into()
}

fn running_status(pod: &Value, now: Timestamp) -> Value {
    let running = |name: &str| {
        json!({"name": name, "ready": true, "started": true, "restartCount": 0, "image": "",
            "imageID": "", "state": {"running": {"startedAt": to_seconds(now)}}})
    };
    json!({
        "phase": "Running",
        "startTime": to_seconds(now),
        "conditions": conditions(true, now),
        "containerStatuses": containers(pod).map(running).collect::<Vec<_>>(),
    })
}

/// Returns the status of a pod whose containers have ended.
pub(crate) fn ended_status(pod: &Value, exit_code: i32, now: Timestamp) -> Value {
    let ended = |name: &str| {
        json!({"name": name, "ready": false, "started": false, "restartCount": 0, "image": "",
        "imageID": "", "state": {"terminated": {
            "exitCode": exit_code,
            "reason": if exit_code == 0 { "Completed" } else { "Error" },
            "startedAt": pod["status"]["startTime"],
            "finishedAt": to_seconds(now),
        }}})
    };
    json!({
        "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
        "conditions": conditions(false, now),
        "containerStatuses": containers(pod).map(ended).collect::<Vec<_>>(),
    })
}

/// Renders a time as the API server stores it.
fn to_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
