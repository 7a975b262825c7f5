//! A gang does not have to leave for another one before its minimum runtime has passed.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::pod_group::{NominatedVictim, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, TrainingQueue};

use super::Judge;
use crate::cluster::{Cluster, Previous};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::journal::{committed_plan, victim_group};
use crate::judged_kinds::JudgedKind as _;
use crate::verifier::{Findings, Step};

/// A write of a plan may take this long after its decision, and the clocks of two leaders may differ by
/// as much.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// Gangs that must leave before their minimum runtime has passed.
#[derive(Debug, Default)]
pub(crate) struct EarlyVictim {
    /// By the PodGroup.
    placements: BTreeMap<ObjectName, Placement>,
}

/// The placement of a gang that the history shows.
#[derive(Debug)]
struct Placement {
    plan: String,
    at: Timestamp,
    min_runtime: SignedDuration,
}

impl Judge for EarlyVictim {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        let (ObjectVersion::Group(version), Previous::Group(before)) =
            (&step.change.object, step.previous)
        else {
            return;
        };
        let group = version.object();
        let name = ObjectName::from_metadata(&group.metadata);
        let Version::Stored(_) = version else {
            self.placements.remove(&name);
            return;
        };
        let before = before.as_deref();
        let before_plan = before.and_then(committed_plan).map(|plan| &plan.hash);
        match committed_plan(group) {
            Some(plan) if before_plan != Some(&plan.hash) && !step.change.is_listed => {
                let placement = Placement {
                    plan: plan.hash.clone(),
                    at: step.now.time,
                    min_runtime: min_runtime(group),
                };
                self.placements.insert(name.clone(), placement);
            }
            Some(plan) => {
                let known = self.placements.get_mut(&name);
                if let Some(known) = known.filter(|known| known.plan == plan.hash) {
                    known.min_runtime = known.min_runtime.min(min_runtime(group));
                }
            }
            None => {
                self.placements.remove(&name);
            }
        }
        let known_victims = before.and_then(|group| group.status.as_ref()).map(victims);
        let is_known =
            |victim: &NominatedVictim| known_victims.is_some_and(|known| known.contains(victim));
        let journal = group.status.as_ref();
        for victim in journal.map(victims).unwrap_or_default() {
            if !is_known(victim) && !step.cluster.has_unread(TrainingQueue::PLURAL) {
                self.judge_victim(step, group, victim, findings);
            }
        }
    }
}

impl EarlyVictim {
    fn judge_victim(
        &self,
        step: &Step<'_>,
        preemptor: &PodGroup,
        victim: &NominatedVictim,
        findings: &mut Findings,
    ) {
        let name = victim_group(victim);
        let placement = self.placements.get(&name);
        // Pods beyond a gang have no minimum runtime.
        let Some(placement) = placement.filter(|p| p.plan == victim.plan && victim.pod.is_none())
        else {
            return;
        };
        let age = step.now.time.duration_since(placement.at);
        let allowed = placement.min_runtime.min(queue_limit(step.cluster, &name));
        if age.saturating_add(TOLERANCE) < allowed {
            let object = ObjectRef::new("PodGroup", &preemptor.metadata);
            let message = format!(
                "gang {name} has to leave for it {} s after its placement, and its minimum runtime is {} s",
                age.as_secs(),
                allowed.as_secs()
            );
            findings.add(step.finding(Rule::EarlyVictim, object, message));
        }
    }
}

/// Returns the gangs and pods that a nominated gang waits for.
fn victims(journal: &PodGroupStatus) -> &[NominatedVictim] {
    match journal.phase {
        Some(PodGroupPhase::Nominated) => &journal.victims,
        _ => &[],
    }
}

fn min_runtime(group: &PodGroup) -> SignedDuration {
    SignedDuration::from_secs(group.spec.min_runtime_seconds.unwrap_or_default())
}

/// Returns the longest minimum runtime that the queue of a placed gang allows.
fn queue_limit(cluster: &Cluster, group: &ObjectName) -> SignedDuration {
    let plan = cluster
        .groups
        .get(group)
        .and_then(|group| committed_plan(group));
    let queue = plan.and_then(|plan| plan.queue.as_ref());
    let queue = queue.and_then(|queue| cluster.queues.get(&ObjectName::cluster_wide(queue)));
    let limit = queue.and_then(|queue| queue.spec.max_min_runtime_seconds);
    limit.map_or(SignedDuration::MAX, SignedDuration::from_secs)
}
