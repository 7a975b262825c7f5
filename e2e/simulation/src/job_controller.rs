//! The controller of Jobs, as far as placeholders need it. Its watch is never late, so it creates no
//! pod of a Job that is gone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_api_server::{Kind, Object};

use crate::access::{Access, Target};
use crate::cluster;
use crate::random::RandomSequence;

/// The finalizer that keeps a pod until its Job has counted it.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// One incarnation of a Job, to be looked at later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobIdentity {
    namespace: String,
    name: String,
    uid: String,
}

impl JobIdentity {
    fn target(&self) -> Target {
        Target::namespaced("apis/batch/v1", "jobs", &self.namespace, &self.name)
    }
}

#[derive(Debug)]
pub(crate) struct JobController {
    max_delay: u64,
    random: RandomSequence,
    /// Number of pods that were created, for their names.
    pods: u64,
}

impl JobController {
    pub(crate) fn new(seed: u64, max_delay: u64) -> Self {
        Self {
            max_delay,
            random: RandomSequence::new(seed, "job controller"),
            pods: 0,
        }
    }

    /// Takes in the new state of an object. Returns the Job to look at, and after which time.
    pub(crate) fn notice(
        &mut self,
        kind: &Kind,
        object: &Value,
    ) -> Option<(Duration, JobIdentity)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let owner = match (kind.group.as_str(), kind.plural.as_str()) {
            ("batch", "jobs") => metadata,
            ("", "pods") => {
                let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                owners.find(|owner| owner["kind"] == "Job")?
            }
            _ => return None,
        };
        let job = JobIdentity {
            namespace: text(&metadata["namespace"]),
            name: text(&owner["name"]),
            uid: text(&owner["uid"]),
        };
        let delay = self.random.log_uniform_millis(20, self.max_delay.max(21));
        Some((delay, job))
    }

    /// Does what a Job needs. Returns when to look at it again.
    pub(crate) fn sync(
        &mut self,
        identity: &JobIdentity,
        access: &mut Access<'_>,
    ) -> Option<Duration> {
        let pods = pods_of(identity, access);
        for pod in pods.iter().filter(|pod| is_over(pod)) {
            let finalizers = &pod["metadata"]["finalizers"];
            if !finalizers.is_null() {
                let _ = access.patch(&pod_target(pod), &json!({"metadata": {"finalizers": null}}));
            }
        }
        let job = access.get(&identity.target())?;
        if job["metadata"]["uid"] != identity.uid.as_str()
            || !job["metadata"]["deletionTimestamp"].is_null()
        {
            return None;
        }
        let now = access.now();
        if let Some(failed) = failure_time(&job) {
            return remove_late(identity, &job, failed, access);
        }
        let Some(start) = time_at(&job["status"]["startTime"]) else {
            access.patch_status(&identity.target(), &json!({"startTime": to_seconds(now)}));
            for _ in 0..job["spec"]["parallelism"].as_u64().unwrap_or(1) {
                self.create_pod(identity, &job, access);
            }
            return seconds_of(&job, "activeDeadlineSeconds");
        };
        let deadline = seconds_of(&job, "activeDeadlineSeconds").unwrap_or(Duration::MAX);
        let passed = since(start, now);
        let wanted = job["spec"]["parallelism"].as_u64().unwrap_or(1) as usize;
        let live = pods.iter().filter(|pod| !is_over(pod));
        let reason = if passed >= deadline {
            "DeadlineExceeded"
        } else if live.clone().count() < wanted {
            "BackoffLimitExceeded"
        } else {
            return Some(deadline - passed);
        };
        let condition = json!({"type": "Failed", "status": "True", "reason": reason,
            "lastTransitionTime": to_seconds(now)});
        access.patch_status(&identity.target(), &json!({"conditions": [condition]}));
        for pod in live {
            access.delete(&pod_target(pod), pod["metadata"]["uid"].as_str());
        }
        None
    }

    fn create_pod(&mut self, identity: &JobIdentity, job: &Value, access: &mut Access<'_>) {
        self.pods += 1;
        let template = &job["spec"]["template"];
        let mut metadata = template["metadata"].clone();
        metadata["name"] = json!(format!("{}-{}", identity.name, self.pods));
        metadata["namespace"] = json!(identity.namespace);
        metadata["finalizers"] = json!([TRACKING]);
        metadata["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": identity.name, "uid": identity.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": template["spec"]});
        let created = access.create(&pod);
        created.unwrap_or_else(|status| panic!("a placeholder is refused: {status}"));
    }
}

/// Deletes a failed Job after its time to live.
fn remove_late(
    identity: &JobIdentity,
    job: &Value,
    failed: Timestamp,
    access: &mut Access<'_>,
) -> Option<Duration> {
    let rest =
        seconds_of(job, "ttlSecondsAfterFinished")?.saturating_sub(since(failed, access.now()));
    if rest.is_zero() {
        access.delete(&identity.target(), Some(&identity.uid));
        return None;
    }
    Some(rest)
}

/// Returns the name of a placeholder that is not being deleted.
pub(crate) fn first_placeholder(access: &Access<'_>) -> Option<Target> {
    let mut pods = access.list(&cluster::PODS).map(|pod| pod.value());
    let pod = pods.find(|pod| {
        pod["metadata"]["namespace"] == cluster::PLACEHOLDER_NAMESPACE && !is_over(pod)
    })?;
    Some(pod_target(pod))
}

fn pods_of(job: &JobIdentity, access: &Access<'_>) -> Vec<Value> {
    let pods = access.list(&cluster::PODS);
    let is_own = |pod: &&std::sync::Arc<Object>| {
        let owners = pod.value()["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["uid"] == job.uid.as_str())
    };
    pods.filter(is_own).map(|pod| pod.value().clone()).collect()
}

fn is_over(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    !pod["metadata"]["deletionTimestamp"].is_null() || matches!(phase, Some("Succeeded" | "Failed"))
}

fn pod_target(pod: &Value) -> Target {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    Target::namespaced("api/v1", "pods", text("namespace"), text("name"))
}

fn failure_time(job: &Value) -> Option<Timestamp> {
    let mut conditions = job["status"]["conditions"].as_array()?.iter();
    let failed = conditions.find(|condition| condition["type"] == "Failed")?;
    time_at(&failed["lastTransitionTime"])
}

fn seconds_of(job: &Value, field: &str) -> Option<Duration> {
    job["spec"][field].as_u64().map(Duration::from_secs)
}

fn time_at(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn since(start: Timestamp, now: Timestamp) -> Duration {
    let passed: SignedDuration = now.duration_since(start);
    Duration::try_from(passed).unwrap_or_default()
}

fn to_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
