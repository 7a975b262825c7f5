//! A plan whose pods are being created or deleted ends in time.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::pod_group::PodGroupPhase;

use super::lasting::{LastingRule, Subject, Violation};
use crate::cluster::{Cluster, JobUid, last_change, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::ObjectName;
use crate::pods::PodFacts as _;
use crate::verifier::Step;

/// A plan is carried out or given up within two minutes.
const COMMIT_TIME: SignedDuration = SignedDuration::from_secs(120 + 30);
/// PodDisruptionBudgets may delay the evictions of a rollback for two minutes.
const ROLLBACK_TIME: SignedDuration = SignedDuration::from_secs(120 + 30);

/// A plan that neither is carried out nor is rolled back.
pub(crate) struct StuckPlan;

impl LastingRule for StuckPlan {
    const RULE: Rule = Rule::StuckPlan;
    type Subject = (ObjectName, PlanWork);

    fn find(cluster: &Cluster, (name, work): &Self::Subject) -> Option<Violation> {
        let group = cluster.groups.get(name)?;
        let phase = group.status.as_ref()?.phase?;
        let (expected, allowed) = match work {
            PlanWork::Commit => (PodGroupPhase::Committing, COMMIT_TIME),
            PlanWork::Rollback => (PodGroupPhase::Unwinding, ROLLBACK_TIME),
        };
        // A kubelet that does not stop the pods delays the end of the rollback.
        if phase != expected
            || *work == PlanWork::Rollback && waits_for_kubelets(cluster, owner_uid(group))
        {
            return None;
        }
        Some(Violation {
            object: ObjectRef::new("PodGroup", &group.metadata),
            message: format!(
                "its phase is {phase:?} for more than {} s",
                allowed.as_secs()
            ),
            allowed,
        })
    }
}

/// The part of a plan's life that must end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanWork {
    Commit,
    Rollback,
}

impl PlanWork {
    const BOTH: [Self; 2] = [Self::Commit, Self::Rollback];
}

/// The name of a PodGroup, and its phase: each phase has its own time.
impl Subject for (ObjectName, PlanWork) {
    fn concerned(step: &Step<'_>) -> Vec<Self> {
        let names = step.group_names();
        let both = |name: ObjectName| PlanWork::BOTH.map(|work| (name.clone(), work));
        names.into_iter().flat_map(both).collect()
    }

    fn all(cluster: &Cluster) -> Vec<(Self, Option<Timestamp>)> {
        let groups = cluster.groups.iter();
        let both = groups.flat_map(|(name, group)| {
            let changed = last_change(&group.metadata);
            PlanWork::BOTH.map(|work| ((name.clone(), work), changed))
        });
        both.collect()
    }
}

/// Returns true if the gang has pods, and all of them are being deleted.
fn waits_for_kubelets(cluster: &Cluster, uid: Option<JobUid>) -> bool {
    // The pods of an external gang belong to other controllers.
    let Some(uid) = uid else { return true };
    // Pods of earlier stages have ended and stay.
    let pods = cluster.pods_of_job(&uid);
    let mut pods = pods.filter(|(_, pod)| !pod.is_over()).peekable();
    pods.peek().is_some() && pods.all(|(_, pod)| pod.is_stopping())
}
