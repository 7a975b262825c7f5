//! The numbers in the status of queues.

use std::collections::BTreeMap;

use super::super::Engine;
use crate::ids::{FlavorName, QueueName, ResourceName};
use crate::quota::{DecayedAmount, FairShare, RememberedUsage};
use crate::state::ResourceIdx;
use crate::time::Time;

/// The state of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueUsage {
    /// The fault that keeps its gangs from starting, as a predicate without a subject.
    pub fault: Option<String>,
    /// Past usage of the queue and the queues below it, divided by its weight. For a queue of
    /// weight 1, a share of 1 is all of some resource. The queue with the smallest share has the
    /// next turn.
    pub share: f64,
    /// The part of current usage that it and the queues below it borrow, divided by its weight. By
    /// it, siblings take quota from each other. None: the queue has no parent.
    pub borrowed_share: Option<FairShare>,
    /// Quota and usage by flavor and resource.
    pub lines: Vec<QueueUsageLine>,
}

/// The state of a queue's quota of one resource of one flavor, in base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUsageLine {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// Its nominal quota.
    pub nominal: i128,
    /// Units that its gangs hold, and units that queues below it hold beyond their own quota.
    pub usage: i128,
    /// The part of the usage beyond its quota.
    pub borrowed: i128,
    /// Units of the quota of this queue and the queues below it that other queues may hold while it
    /// is idle.
    pub lendable: i128,
    /// The amount that its gangs can still get by quota; negative if the quota was lowered below
    /// the usage. None: it has no limit.
    pub available: Option<i128>,
}

/// Capacity and usage of a resource on the nodes that take pods, in base units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTotals {
    /// Capacity.
    pub allocatable: i128,
    /// Units that placed gangs hold.
    pub placed_gangs: i128,
    /// Units that other pods use.
    pub external_pods: i128,
}

/// Past usage of a queue and the queues below it at some time. It decides the turns of queues, and
/// survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMemory {
    /// The time.
    pub at: Time,
    /// Decayed usage by resource.
    pub usage: BTreeMap<ResourceName, DecayedAmount>,
}

impl Engine {
    /// Advances the time: later changes count from this time. The engine's time never goes back.
    /// [`Engine::cycle`] does the same.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.queues.advance(now);
    }

    /// Returns the past usage of a queue. None: the queue does not exist.
    #[must_use]
    pub fn queue_memory(&self, queue: &QueueName) -> Option<QueueMemory> {
        let tree = self.queues.tree();
        let RememberedUsage { at, usage } = tree.remembered_usage(tree.find(queue)?);
        let named = |(resource, decayed)| (self.catalog.name(resource), decayed);
        Some(QueueMemory {
            at,
            usage: usage.into_iter().map(named).collect(),
        })
    }

    /// Restores the past usage of a queue as of the recorded time. The engine assumes that the
    /// queue has held its current usage since then. After a restart, the caller restores the
    /// running gangs, and then calls this for each queue separately, including parents.
    pub fn restore_queue_memory(&mut self, queue: &QueueName, memory: &QueueMemory) {
        let usage = memory.usage.iter();
        let remembered = RememberedUsage {
            at: memory.at,
            usage: usage
                .map(|(name, decayed)| (self.catalog.pin(name), *decayed))
                .collect(),
        };
        self.queues.restore_memory(queue, &remembered);
    }

    /// Returns the capacity and usage of the nodes that take pods, by resource.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<ResourceName, ResourceTotals> {
        let mut totals: BTreeMap<ResourceIdx, ResourceTotals> = BTreeMap::new();
        for (at, facts) in self.nodes.iter() {
            if !facts.ready || facts.unschedulable || facts.unhealthy.is_some() {
                continue;
            }
            for resource in self.nodes.listed_resources(at) {
                let total = totals.entry(*resource).or_default();
                let (held, others) = self.nodes.usage(*resource, at);
                let allocatable = i128::from(self.nodes.allocatable(*resource, at));
                total.allocatable = total.allocatable.saturating_add(allocatable);
                total.placed_gangs = total.placed_gangs.saturating_add(held);
                total.external_pods = total.external_pods.saturating_add(others);
            }
        }
        let named = totals.into_iter();
        named
            .map(|(resource, total)| (self.catalog.name(resource), total))
            .collect()
    }

    /// Returns the state of a queue. None: the queue does not exist.
    #[must_use]
    pub fn queue_usage_report(&self, queue: &QueueName) -> Option<QueueUsage> {
        let tree = self.queues.tree();
        let at = tree.find(queue)?;
        let lines = tree
            .quota_usages(at)
            .into_iter()
            .map(|line| QueueUsageLine {
                flavor: self
                    .queues
                    .flavors()
                    .name(line.flavor_resource.flavor)
                    .cloned()
                    .unwrap_or_default(),
                resource: self.catalog.name(line.flavor_resource.resource),
                nominal: line.nominal,
                usage: line.usage,
                borrowed: line.borrowed,
                lendable: line.lendable,
                available: line.available,
            });
        Some(QueueUsage {
            fault: tree.fault(at).map(ToString::to_string),
            share: tree.share(at).as_f64(),
            borrowed_share: tree.share_among_siblings(at),
            lines: lines.collect(),
        })
    }
}
