//! A pod does not outlive its job.

use k8s_openapi::jiff::SignedDuration;

use super::lasting::{Fault, LastingRule};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::pods::PodFacts as _;

/// Time in which the garbage collector or Trellis deletes the pods of a job that is gone.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(120);

/// Pods whose job is gone.
pub(crate) struct Leak;

impl LastingRule for Leak {
    const RULE: Rule = Rule::Leak;
    type Subject = JobUid;

    fn find(cluster: &Cluster, uid: &JobUid) -> Option<Fault> {
        if cluster.job(uid).is_some() {
            return None;
        }
        let mut pods = cluster.pods_of_job(uid);
        let (_, pod) = pods.find(|(_, pod)| !pod.is_stopping())?;
        Some(Fault {
            object: ObjectRef::new("Pod", &pod.metadata),
            message: format!("its job with the uid {uid} is gone"),
            allowed: REMOVAL_TIME,
        })
    }
}
