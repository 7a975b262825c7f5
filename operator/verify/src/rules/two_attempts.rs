//! An attempt is placed once, and no pod of it is created while a pod of an earlier attempt runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};

use super::Judge;
use crate::cluster::{JobUid, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Longest time for which the watches of a replica lag.
const LONGEST_LAG: SignedDuration = SignedDuration::from_mins(5);

/// Attempts that run twice, or side by side.
#[derive(Debug, Default)]
pub(crate) struct TwoAttempts {
    /// The last attempt of each job that was placed.
    placed: BTreeMap<JobUid, PlacedAttempt>,
}

#[derive(Debug)]
struct PlacedAttempt {
    number: i64,
    /// The hash of its plan. None: the gang has left its place.
    plan: Option<String>,
}

impl Judge for TwoAttempts {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Group(version), _) => self.observe_journal(step, version, findings),
            (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(None)) => {
                judge_new_pod(step, pod, findings);
            }
            (ObjectVersion::Job(Version::Deleted(job)), _) => {
                if let Some(uid) = &job.metadata.uid {
                    self.placed.remove(&JobUid(uid.clone()));
                }
            }
            _ => {}
        }
    }
}

impl TwoAttempts {
    fn observe_journal(
        &mut self,
        step: &Step<'_>,
        version: &Version<PodGroup>,
        findings: &mut Findings,
    ) {
        let group = version.object();
        let Some(uid) = owner_uid(group) else { return };
        let Some(job) = step.cluster.job(&uid) else {
            return;
        };
        if version.stored().is_none() && !has_long_been_recorded(job, step.now.time) {
            // The next leader may not know that the attempt was placed.
            self.placed.remove(&uid);
        }
        let journal = version.stored().and_then(|group| group.status.as_ref());
        let plan = journal
            .filter(|journal| journal.phase == Some(PodGroupPhase::Placed))
            .and_then(|journal| journal.plan.as_ref());
        let Some(plan) = plan else {
            if let Some(placed) = self.placed.get_mut(&uid) {
                placed.plan = None;
            }
            return;
        };
        let attempt = PlacedAttempt {
            number: plan.attempt,
            plan: Some(plan.hash.clone()),
        };
        let is_again = self.placed.get(&uid).is_some_and(|placed| {
            plan.attempt <= placed.number && placed.plan.as_ref() != Some(&plan.hash)
        });
        if is_again {
            let object = ObjectRef::new("PodGroup", &group.metadata);
            let message = format!(
                "attempt {} was placed again, or after a later one",
                plan.attempt
            );
            findings.add(step.finding(Rule::TwoAttempts, object, message));
        }
        self.placed.insert(uid, attempt);
    }
}

/// Returns true if the status has shown for so long that the attempt is placed that each replica of the
/// operator has seen it.
fn has_long_been_recorded(job: &TrainingJob, now: Timestamp) -> bool {
    let status = job.status.as_ref();
    let recorded = status.and_then(|status| status.scheduled_time.as_ref());
    recorded.is_some_and(|recorded| now.duration_since(recorded.0) > LONGEST_LAG)
}

fn judge_new_pod(step: &Step<'_>, pod: &Pod, findings: &mut Findings) {
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
