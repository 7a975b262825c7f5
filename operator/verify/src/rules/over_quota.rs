//! A gang is placed only if its queue and the queues above it have the quota.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use trellis_api::pod_group::{Plan, PodGroupPhase};
use trellis_api::{PodGroup, TrainingQueue};

use super::Judge;
use crate::clock::Moment;
use crate::cluster::{Cluster, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::journal::committed_plan;
use crate::judged_kinds::JudgedKind as _;
use crate::pods::PodFacts as _;
use crate::quota::{FlavorResource, QuotaTree, Usage};
use crate::resources::{in_units, millis, pod_requests};
use crate::verifier::{Findings, Step};

/// Time in which Trellis may not have seen a change of a queue.
const REACTION_TIME: SignedDuration = SignedDuration::from_secs(10);

/// Placements beyond the quota.
#[derive(Debug, Default)]
pub(crate) struct OverQuota {
    /// When a queue last changed.
    changed: Option<Moment>,
}

impl Judge for OverQuota {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Queue(version), Previous::Queue(before)) => {
                let now = version.stored().map(|queue| &queue.spec);
                if now != before.as_ref().map(|queue| &queue.spec) {
                    self.changed = Some(step.now);
                }
            }
            (ObjectVersion::Group(Version::Stored(now)), Previous::Group(before)) => {
                let before = before.as_deref().and_then(committed_plan);
                if let Some(plan) = committed_plan(now)
                    && before.is_none_or(|before| before.hash != plan.hash)
                {
                    self.judge_placement(step, now, plan, findings);
                }
            }
            _ => {}
        }
    }
}

impl OverQuota {
    fn judge_placement(
        &self,
        step: &Step<'_>,
        group: &PodGroup,
        plan: &Plan,
        findings: &mut Findings,
    ) {
        let has_just_changed = self.changed.is_some_and(|changed| {
            step.now.healthy.saturating_sub(changed.healthy) < REACTION_TIME
        });
        let Some(queue) = &plan.queue else { return };
        // A list does not show which gangs were placed when this one was.
        if has_just_changed
            || step.change.is_listed
            || step.cluster.has_unread(TrainingQueue::PLURAL)
        {
            return;
        }
        let usage = measure_usage(step.cluster);
        let queues = step.cluster.queues.values();
        let queues = queues.filter_map(|queue: &Arc<TrainingQueue>| {
            Some((queue.metadata.name.as_deref()?, &queue.spec))
        });
        let tree = QuotaTree::new(queues);
        let own = plan.groups.iter().flat_map(|group| &group.flavors);
        for (resource, flavor) in own {
            let wanted = FlavorResource {
                flavor: flavor.clone(),
                resource: resource.clone(),
            };
            let Some(excess) = tree.find_excess(queue, &wanted, &usage) else {
                continue;
            };
            let object = ObjectRef::new("PodGroup", &group.metadata);
            let message = format!(
                "it was placed in queue {queue:?}, and now queue {:?} uses {} {resource} of flavor {flavor:?}, and may use {}",
                excess.queue,
                in_units(excess.used),
                in_units(excess.allowed)
            );
            findings.add(step.finding(Rule::OverQuota, object, message));
        }
    }
}

/// Measures what the placed gangs and the external pods use.
pub(crate) fn measure_usage(cluster: &Cluster) -> Usage {
    let mut usage = Usage::new();
    for group in cluster.groups.values() {
        if let Some(plan) = committed_plan(group) {
            add_gang(&mut usage, cluster, group, plan);
        }
    }
    for pod in cluster.pods() {
        let Some(queue) = pod
            .placed_in()
            .filter(|_| pod.node().is_some() && !pod.is_over())
        else {
            continue;
        };
        let flavors = pod.flavors();
        for (resource, amount) in pod_requests(pod) {
            if let Some(flavor) = flavors.get(&resource) {
                add(&mut usage, queue, flavor, &resource, amount);
            }
        }
    }
    usage
}

/// Adds the pods of a job's plan that have not ended. Only pods that exist count while the plan is
/// rolled back, and after the deletion of the job: its PodGroup waits for the garbage collector.
fn add_gang(usage: &mut Usage, cluster: &Cluster, group: &PodGroup, plan: &Plan) {
    let (Some(uid), Some(queue)) = (owner_uid(group), &plan.queue) else {
        return;
    };
    let phase = group.status.as_ref().and_then(|journal| journal.phase);
    let only_existing = phase == Some(PodGroupPhase::Unwinding) || cluster.is_gone(&uid);
    let mut over: BTreeMap<&str, i64> = BTreeMap::new();
    let mut existing: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, pod) in cluster.pods_of_job(&uid) {
        if pod.plan() == Some(plan.hash.as_str())
            && let Some(name) = pod.group()
        {
            let count = if pod.is_over() {
                &mut over
            } else {
                &mut existing
            };
            let count = count.entry(name).or_default();
            *count = count.saturating_add(1);
        }
    }
    for planned in &plan.groups {
        let name = planned.name.as_str();
        let pods = if only_existing {
            existing.get(name).copied().unwrap_or(0)
        } else {
            let assigned = plan.assignments.iter().filter(|a| a.group == name);
            let assigned = assigned.fold(0_i64, |sum, a| sum.saturating_add(a.count));
            assigned.saturating_sub(over.get(name).copied().unwrap_or(0))
        };
        let members = group.spec.groups.iter();
        let Some(member) = members.into_iter().find(|member| member.name == name) else {
            continue;
        };
        for (resource, flavor) in &planned.flavors {
            let one = member.resources.get(resource).and_then(millis).unwrap_or(0);
            add(usage, queue, flavor, resource, one.saturating_mul(pods));
        }
    }
}

fn add(usage: &mut Usage, queue: &str, flavor: &str, resource: &str, amount: i64) {
    let key = FlavorResource {
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
    };
    let sum = usage.entry((queue.to_owned(), key)).or_default();
    *sum = sum.saturating_add(amount);
}
