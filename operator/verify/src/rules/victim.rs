//! A gang that had to leave for another gang did not leave in vain.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::{Plan, PodGroupPhase};
use trellis_api::{PodGroup, Reason, TrainingQueue};

use super::Judge;
use crate::clock::Moment;
use crate::cluster::{Cluster, Previous};
use crate::finding::{Finding, ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::journal::victim_group;
use crate::nodes;
use crate::verifier::{Findings, Step};

/// Time in which the gang is placed for which another one left.
const PLACEMENT_TIME: SignedDuration = SignedDuration::from_secs(600);

/// Gangs that left for a gang that is not placed.
#[derive(Debug, Default)]
pub(crate) struct Victim {
    /// By the PodGroup of the preemptor.
    nominations: BTreeMap<ObjectName, Nomination>,
}

/// A gang for which others must leave.
#[derive(Debug)]
struct Nomination {
    uid: Option<String>,
    /// Generation of the job that was nominated.
    generation: Option<i64>,
    plan: Plan,
    priority: i32,
    queue: String,
    /// The gangs that must leave, with the plans that placed them.
    victims: Vec<(ObjectName, String)>,
    /// The first gang that left.
    left: Option<Departure>,
}

/// A gang that left for another one.
#[derive(Debug)]
struct Departure {
    victim: ObjectName,
    /// Hash of the plan that had placed the victim.
    plan: String,
    at: Moment,
}

impl Nomination {
    fn has_node(&self, name: &str) -> bool {
        let mut assignments = self.plan.assignments.iter();
        assignments.any(|assignment| assignment.node == name)
    }
}

impl Judge for Victim {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Group(version), _) => self.observe_group(step, version, findings),
            // Another node, or a queue of its tree, may leave no place for the gang.
            (ObjectVersion::Node(version), Previous::Node(before)) => {
                let node = version.object();
                if version.stored().is_none()
                    || before.as_ref().is_some_and(|b| nodes::has_changed(b, node))
                {
                    let name = node.metadata.name.as_deref().unwrap_or_default();
                    self.nominations
                        .retain(|_, nomination| !nomination.has_node(name));
                }
            }
            (ObjectVersion::Queue(version), Previous::Queue(before)) => {
                let now = version.stored();
                if now.map(|queue| &queue.spec) != before.as_ref().map(|queue| &queue.spec) {
                    let versions = [now, before.as_ref()].into_iter().flatten();
                    self.excuse_tree(step.cluster, versions);
                }
            }
            _ => {}
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        let is_overdue = |_: &ObjectName, nomination: &mut Nomination| {
            let left = nomination.left.as_ref();
            left.is_some_and(|left| now.healthy.saturating_sub(left.at.healthy) > PLACEMENT_TIME)
        };
        for (name, nomination) in self.nominations.extract_if(.., is_overdue) {
            let Some(Departure { victim, at, .. }) = &nomination.left else {
                continue;
            };
            if !still_waits(cluster, &name, &nomination) {
                continue;
            }
            let Some(group) = cluster.groups.get(&name) else {
                continue;
            };
            findings.add(Finding {
                rule: Rule::Victim,
                object: ObjectRef::new("PodGroup", &group.metadata),
                message: format!(
                    "gang {victim} had to leave for it, and it has not been placed for {} s",
                    PLACEMENT_TIME.as_secs()
                ),
                since: at.time,
                revision: None,
            });
        }
    }
}

impl Victim {
    fn observe_group(
        &mut self,
        step: &Step<'_>,
        version: &Version<PodGroup>,
        findings: &mut Findings,
    ) {
        let group = version.object();
        let name = ObjectName::from_metadata(&group.metadata);
        let journal = version.stored().and_then(|group| group.status.as_ref());
        let known = self.nominations.get(&name);
        if known.is_some_and(|known| known.uid != group.metadata.uid) {
            self.nominations.remove(&name);
        }
        let Some(journal) = journal else {
            self.nominations.remove(&name);
            return;
        };
        if journal.phase == Some(PodGroupPhase::Unwinding) {
            // The gang had its room, and its start failed.
            self.nominations.remove(&name);
        }
        match (journal.phase.unwrap_or_default(), &journal.plan) {
            (PodGroupPhase::Nominated, Some(plan)) => {
                let victims = journal.victims.iter().filter(|victim| victim.pod.is_none());
                let victims = victims.map(|victim| (victim_group(victim), victim.plan.clone()));
                let job = step.cluster.jobs.get(&name);
                let generation = job.and_then(|job| job.metadata.generation);
                let known = self.nominations.remove(&name);
                let known = known.filter(|known| known.generation == generation);
                let nomination = Nomination {
                    uid: group.metadata.uid.clone(),
                    generation,
                    plan: plan.clone(),
                    priority: group.spec.priority(),
                    queue: group.spec.queue_name.clone(),
                    victims: victims.collect(),
                    left: known.and_then(|known| known.left),
                };
                self.nominations.insert(name, nomination);
            }
            (PodGroupPhase::Placed | PodGroupPhase::Finished, _) => {
                self.nominations.remove(&name);
                if let Some(plan) = &journal.plan {
                    self.excuse_overtaken(group.spec.priority(), plan);
                }
            }
            (PodGroupPhase::Unwinding, Some(plan)) if journal.reason == Some(Reason::Preempted) => {
                self.record_departure(step, &name, plan, findings);
            }
            _ => {}
        }
    }

    fn record_departure(
        &mut self,
        step: &Step<'_>,
        victim: &ObjectName,
        plan: &Plan,
        findings: &mut Findings,
    ) {
        for (name, nomination) in &mut self.nominations {
            let mut victims = nomination.victims.iter();
            if !victims.any(|(name, placed_by)| name == victim && *placed_by == plan.hash) {
                continue;
            }
            let departure = Departure {
                victim: victim.clone(),
                plan: plan.hash.clone(),
                at: step.now,
            };
            let before = nomination.left.get_or_insert(departure);
            if before.victim == *victim
                && before.plan != plan.hash
                && let Some(group) = step.cluster.groups.get(name)
            {
                let object = ObjectRef::new("PodGroup", &group.metadata);
                let message = format!(
                    "gang {victim} had to leave for it again, and it has not been placed since gang {victim} left at {}",
                    before.at.time
                );
                findings.add(step.finding(Rule::Victim, object, message));
                before.plan.clone_from(&plan.hash);
            }
        }
    }

    /// Forgets the gangs in the trees of a changed queue.
    fn excuse_tree<'a>(
        &mut self,
        cluster: &Cluster,
        versions: impl Iterator<Item = &'a Arc<TrainingQueue>>,
    ) {
        for queue in versions {
            let name = queue.metadata.name.as_deref().unwrap_or_default();
            let root = match queue.spec.parent_name.as_deref() {
                Some(parent) => cluster.root_queue(parent),
                None => name,
            };
            self.nominations.retain(|_, nomination| {
                nomination.queue != name && cluster.root_queue(&nomination.queue) != root
            });
        }
    }

    /// Forgets the gangs whose nodes a gang of at least their priority has taken.
    fn excuse_overtaken(&mut self, priority: i32, plan: &Plan) {
        self.nominations.retain(|_, nomination| {
            let mut assignments = plan.assignments.iter();
            let shares_node = assignments.any(|assignment| nomination.has_node(&assignment.node));
            !(shares_node && priority >= nomination.priority)
        });
    }
}

/// Returns true if the gang is wanted as it was when others left for it.
fn still_waits(cluster: &Cluster, name: &ObjectName, nomination: &Nomination) -> bool {
    let Some(job) = cluster.jobs.get(name) else {
        return false;
    };
    let phase = job.status.as_ref().and_then(|status| status.phase);
    let is_same = job.metadata.generation == nomination.generation;
    is_same
        && phase == Some(JobPhase::Queued)
        && job.metadata.deletion_timestamp.is_none()
        && !cluster.is_terminating(&name.namespace)
}
