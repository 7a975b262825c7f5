//! The pods of a gang are created only after its placeholders are deleted. An autoscaler that sees
//! both buys a second node for each.

use k8s_openapi::api::core::v1::Pod;

use super::Judge;
use crate::cluster::Previous;
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Pods of gangs beside placeholders of the same job.
pub(crate) struct SecondPurchase;

impl Judge for SecondPurchase {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        if let (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(None)) =
            (&step.change.object, step.previous)
            && !step.change.is_listed
        {
            judge_new_pod(step, pod, findings);
        }
    }
}

fn judge_new_pod(step: &Step<'_>, pod: &Pod, findings: &mut Findings) {
    let Some(uid) = pod.job_uid().filter(|_| pod.plan().is_some()) else {
        return;
    };
    let mut placeholders = step.cluster.placeholders_of_job(&uid);
    let Some((name, _)) = placeholders.find(|(_, pod)| !pod.is_over()) else {
        return;
    };
    let message = format!(
        "it was created while placeholder {name} of its gang still asked for a node, {} in all",
        placeholders.count().saturating_add(1)
    );
    let object = ObjectRef::new("Pod", &pod.metadata);
    findings.add(step.finding(Rule::SecondPurchase, object, message));
}
