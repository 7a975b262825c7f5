//! No pod of an attempt is created while a pod of an earlier attempt runs.

use super::Judge;
use crate::cluster::Previous;
use crate::finding::{Finding, ObjectRef, Rule};
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
        let (Some(uid), Some(attempt)) = (pod.job_uid(), pod.attempt()) else {
            return;
        };
        let earlier = step
            .cluster
            .pods_of_job(&uid)
            .find(|(_, other)| other.is_live() && other.attempt().is_some_and(|a| a < attempt));
        let Some((name, earlier)) = earlier else {
            return;
        };
        findings.add(Finding {
            rule: Rule::TwoAttempts,
            object: ObjectRef::new("Pod", &pod.metadata),
            message: format!(
                "created for attempt {attempt} while pod {name} of attempt {} lives",
                earlier.attempt().unwrap_or_default()
            ),
            since: step.change.time,
            revision: Some(step.change.revision),
        });
    }
}
