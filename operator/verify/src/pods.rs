//! The parts of a pod that the rules read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use trellis_api::names;

use crate::cluster::JobUid;

/// Reads a pod.
pub(crate) trait PodFacts {
    /// Uid of the TrainingJob.
    fn job_uid(&self) -> Option<JobUid>;
    /// Hash of the plan.
    fn plan(&self) -> Option<&str>;
    /// The task group.
    fn group(&self) -> Option<&str>;
    /// The index within the task group, from 0.
    fn index(&self) -> Option<u32>;
    /// The attempt of the job, from 1.
    fn attempt(&self) -> Option<i64>;
    /// The round in which the pod replaces an earlier one, from 1.
    fn round(&self) -> Option<&str>;
    /// True if Trellis placed the pod, as the pod of a job or as an external pod.
    fn is_placed_by_trellis(&self) -> bool;
    /// True if the pod asks Trellis for its place.
    fn wants_trellis(&self) -> bool;
    /// True if the pod asks autoscalers for a node, and gets no place.
    fn is_placeholder(&self) -> bool;
    /// The job that a placeholder is for, and the hash of its order.
    fn node_order(&self) -> Option<(JobUid, String)>;
    /// True for a pod outside the gang.
    fn is_surplus(&self) -> bool;
    /// The queue that an external pod counts in.
    fn placed_in(&self) -> Option<&str>;
    /// The flavors of an external pod, by resource.
    fn flavors(&self) -> BTreeMap<String, String>;
    /// The node.
    fn node(&self) -> Option<&str>;
    /// True if all containers have ended for good.
    fn is_over(&self) -> bool;
    /// True if the pod is being deleted.
    fn is_stopping(&self) -> bool;
    /// True if the pod has a node, and neither has ended nor is being deleted.
    fn is_live(&self) -> bool {
        self.node().is_some() && !self.is_over() && !self.is_stopping()
    }
    /// Seconds that the pod gets to stop.
    fn grace_seconds(&self) -> i64;
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn has_scheduler(pod: &Pod, name: &str) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
    scheduler == Some(name)
}

impl PodFacts for Pod {
    fn job_uid(&self) -> Option<JobUid> {
        label(self, names::JOB_UID).map(|uid| JobUid(uid.to_owned()))
    }

    fn plan(&self) -> Option<&str> {
        annotation(self, names::PLAN)
    }

    fn group(&self) -> Option<&str> {
        label(self, names::GROUP)
    }

    fn index(&self) -> Option<u32> {
        label(self, names::INDEX)?.parse().ok()
    }

    fn attempt(&self) -> Option<i64> {
        label(self, names::ATTEMPT)?.parse().ok()
    }

    fn round(&self) -> Option<&str> {
        annotation(self, names::ROUND)
    }

    fn is_placed_by_trellis(&self) -> bool {
        self.job_uid().is_some() || self.placed_in().is_some()
    }

    fn wants_trellis(&self) -> bool {
        has_scheduler(self, names::SCHEDULER)
    }

    fn is_placeholder(&self) -> bool {
        has_scheduler(self, names::PLACEHOLDER_SCHEDULER)
    }

    fn node_order(&self) -> Option<(JobUid, String)> {
        if !self.is_placeholder() {
            return None;
        }
        let job = label(self, names::ORDERING_JOB_UID)?.to_owned();
        Some((JobUid(job), label(self, names::NODE_ORDER)?.to_owned()))
    }

    fn is_surplus(&self) -> bool {
        annotation(self, names::EPOCH).is_some()
    }

    fn placed_in(&self) -> Option<&str> {
        annotation(self, names::PLACED_IN)
    }

    fn flavors(&self) -> BTreeMap<String, String> {
        let written = annotation(self, names::FLAVORS);
        let flavors = written.and_then(|written| serde_json::from_str(written).ok());
        flavors.unwrap_or_default()
    }

    fn node(&self) -> Option<&str> {
        let node = self.spec.as_ref()?.node_name.as_deref()?;
        (!node.is_empty()).then_some(node)
    }

    fn is_over(&self) -> bool {
        matches!(phase(self), Some("Succeeded" | "Failed"))
    }

    fn is_stopping(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn grace_seconds(&self) -> i64 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.termination_grace_period_seconds)
            .unwrap_or(30)
    }
}
