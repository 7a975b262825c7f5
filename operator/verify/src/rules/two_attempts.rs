//! No pod of an attempt is created while a pod of an earlier attempt runs.

use k8s_openapi::api::core::v1::Pod;

use super::Judge;
use crate::cluster::Previous;
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Pods of two attempts side by side.
pub(crate) struct TwoAttempts;

impl Judge for TwoAttempts {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        let (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(None)) =
            (&step.change.object, step.previous)
        else {
            return;
        };
        // A list does not show the order in which pods were created, ended and were deleted.
        if step.change.is_listed {
            return;
        }
        let (Some(uid), Some(attempt)) = (pod.job_uid(), pod.attempt()) else {
            return;
        };
        // A pod that is being deleted still runs. Trellis waits until it is gone.
        let runs = |other: &Pod| other.node().is_some() && !other.is_over();
        let earlier = step
            .cluster
            .pods_of_job(&uid)
            .find(|(_, other)| runs(other) && other.attempt().is_some_and(|a| a < attempt));
        let Some((name, earlier)) = earlier else {
            return;
        };
        let object = ObjectRef::new("Pod", &pod.metadata);
        let message = format!(
            "created for attempt {attempt} while pod {name} of attempt {} runs",
            earlier.attempt().unwrap_or_default()
        );
        findings.add(step.finding(Rule::TwoAttempts, object, message));
    }
}
