//! A journal says that a gang is placed, or that it has left, only when its pods show it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use trellis_api::PodGroup;
use trellis_api::pod_group::{Plan, PodGroupPhase};

use super::Judge;
use super::torn::has_pod;
use crate::cluster::{JobUid, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::rules::torn::expected_pods;
use crate::verifier::{Findings, Step};

/// A pod, by name and uid.
type PodId = (ObjectName, String);

#[derive(Debug, Default)]
pub(crate) struct HastyJournal {
    /// Pods that had not ended when their journal dropped their plan, as far as the history shows,
    /// with the revision of the journal. The watch of pods may be late.
    dropped: BTreeMap<PodId, u64>,
}

impl Judge for HastyJournal {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Group(Version::Stored(now)), Previous::Group(Some(before))) => {
                if let (Some(uid), Some(plan)) = (owner_uid(before), removed_plan(before, now)) {
                    self.record_dropped_pods(step, &uid, plan);
                }
            }
            (ObjectVersion::Pod(version), Previous::Pod(before)) => {
                let pod = version.object();
                if version.stored().is_none() || pod.is_over() {
                    self.judge_end(step, pod, findings);
                } else if before.is_none() {
                    judge_new_pod(step, pod, findings);
                }
            }
            _ => {}
        }
    }
}

impl HastyJournal {
    fn record_dropped_pods(&mut self, step: &Step<'_>, uid: &JobUid, plan: &Plan) {
        for (_, pod) in step.cluster.pods_of_job(uid) {
            // Pods of a slice that joined the gang keep the annotation of surplus pods.
            let is_member = pod.group().zip(pod.index());
            let is_member = is_member.is_some_and(|(group, index)| has_pod(plan, group, index));
            let is_surplus = pod.is_surplus() && !is_member;
            if pod.plan() == Some(plan.hash.as_str()) && !pod.is_over() && !is_surplus {
                self.dropped.insert(pod_id(pod), step.change.revision);
            }
        }
    }

    /// Reports a pod that ended after its plan was dropped.
    fn judge_end(&mut self, step: &Step<'_>, pod: &Pod, findings: &mut Findings) {
        let Some(dropped) = self.dropped.remove(&pod_id(pod)) else {
            return;
        };
        if step.change.revision > dropped && !step.change.is_listed {
            let object = ObjectRef::new("Pod", &pod.metadata);
            let message =
                format!("it ran when its journal dropped its plan, at revision {dropped}");
            findings.add(step.finding(Rule::HastyJournal, object, message));
        }
    }
}

/// Returns the plan of an undone gang that its journal no longer has.
fn removed_plan<'a>(before: &'a PodGroup, now: &PodGroup) -> Option<&'a Plan> {
    let journal = before.status.as_ref()?;
    let plan = journal.plan.as_ref()?;
    let after = now.status.as_ref().and_then(|status| status.plan.as_ref());
    let is_removed = after.is_none_or(|after| after.hash != plan.hash);
    (journal.phase == Some(PodGroupPhase::Unwinding) && is_removed).then_some(plan)
}

/// Reports the first pod of a member if the journal already says that the gang is placed.
fn judge_new_pod(step: &Step<'_>, pod: &Pod, findings: &mut Findings) {
    // A list shows a pod later than it was created. A pod with a round replaces an earlier one.
    if step.change.is_listed || pod.is_surplus() || pod.round().is_some() {
        return;
    }
    let Some(uid) = pod.job_uid() else { return };
    let (Some(group), Some(job)) = (step.cluster.group_of_job(&uid), step.cluster.job(&uid)) else {
        return;
    };
    let Some(journal) = &group.status else { return };
    let (Some(plan), Some(PodGroupPhase::Placed)) = (&journal.plan, journal.phase) else {
        return;
    };
    let (Some(name), Some(index)) = (pod.group(), pod.index()) else {
        return;
    };
    // The watch of pods may be late: then the pod was created before the journal was written.
    if step.is_older_than(&group.metadata) {
        return;
    }
    let expected = expected_pods(plan, job);
    let is_expected = expected.get(name).is_some_and(|group| group.expects(index));
    if is_expected && pod.plan() == Some(plan.hash.as_str()) {
        let object = ObjectRef::new("PodGroup", &group.metadata);
        let message = format!(
            "its phase is Placed, and pod {} of its plan was created later",
            ObjectName::from_metadata(&pod.metadata)
        );
        findings.add(step.finding(Rule::HastyJournal, object, message));
    }
}

fn pod_id(pod: &Pod) -> PodId {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    (ObjectName::from_metadata(&pod.metadata), uid)
}
