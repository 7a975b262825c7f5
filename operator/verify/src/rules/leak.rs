//! A pod does not outlive its job.

use k8s_openapi::jiff::SignedDuration;
use trellis_api::TrainingJob;

use super::lasting::{LastingRule, Violation};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::pods::PodFacts as _;

/// Time in which the garbage collector or Trellis deletes the pods of a job that is gone.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(120);
/// Time in which Trellis asks the pods of an ended job to stop.
const STOP_TIME: SignedDuration = SignedDuration::from_secs(60);

/// Pods whose job is gone or has ended.
pub(crate) struct Leak;

impl LastingRule for Leak {
    const RULE: Rule = Rule::Leak;
    type Subject = JobUid;

    fn find(cluster: &Cluster, uid: &JobUid) -> Option<Violation> {
        match cluster.job(uid) {
            Some(job) => find_running_pod(cluster, uid, job),
            None => find_orphan(cluster, uid),
        }
    }
}

fn find_orphan(cluster: &Cluster, uid: &JobUid) -> Option<Violation> {
    if !cluster.is_gone(uid) {
        return None;
    }
    let mut pods = cluster.pods_of_job(uid);
    let (_, pod) = pods.find(|(_, pod)| !pod.is_stopping())?;
    Some(Violation {
        object: ObjectRef::new("Pod", &pod.metadata),
        message: format!("its job with the uid {uid} is gone"),
        allowed: REMOVAL_TIME,
    })
}

/// Returns a pod that an ended job has not asked to stop. The kubelet decides how long it runs then.
fn find_running_pod(cluster: &Cluster, uid: &JobUid, job: &TrainingJob) -> Option<Violation> {
    let status = job.status.as_ref()?;
    if !status.has_ended() || job.spec.external_manager().is_some() {
        return None;
    }
    let mut pods = cluster.pods_of_job(uid);
    let (_, pod) = pods.find(|(_, pod)| pod.is_live())?;
    let phase = status.phase.map_or("none", |phase| phase.as_str());
    Some(Violation {
        object: ObjectRef::new("Pod", &pod.metadata),
        message: format!("its job has ended with phase {phase}, and it still runs"),
        allowed: STOP_TIME,
    })
}
