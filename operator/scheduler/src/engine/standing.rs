//! How queues stand: what their status says.

use std::collections::BTreeMap;

use super::Engine;
use crate::ids::{FlavorName, QueueName, ResourceName};
use crate::quota::{Decayed, Remembered};
use crate::state::ResourceIdx;
use crate::time::Time;

/// How a queue stands.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStanding {
    /// Why nothing of it is started, though it is there: what it is or does.
    pub fault: Option<String>,
    /// What it and the queues below it have had, for its weight: 1 is all of some
    /// resource, for a queue of weight 1. The smallest has the next turn.
    pub share: f64,
    /// By flavor and resource.
    pub lines: Vec<StandingLine>,
}

/// How a queue stands with one resource of one flavor, in base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingLine {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// What it has of its own.
    pub nominal: i128,
    /// What is held by its gangs, and beyond their own quota by queues below it.
    pub usage: i128,
    /// How much of that is more than it has.
    pub borrowed: i128,
    /// What others may hold of what it and the queues below it have, while these leave it idle.
    pub lendable: i128,
    /// How much more its gangs may be given now by quota; negative where it was lowered
    /// below what is held. None: it has no limit.
    pub available: Option<i128>,
}

/// What the nodes that take pods have of a resource, in base units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All of it.
    pub allocatable: i128,
    /// What placed gangs hold.
    pub held: i128,
    /// What other pods use.
    pub others: i128,
}

/// What a queue and those below it have held, at some time: what turns are taken
/// by, to be kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMemory {
    /// The time.
    pub at: Time,
    /// Decayed usage by resource.
    pub usage: BTreeMap<ResourceName, Decayed>,
}

impl Engine {
    /// It is so late now: what follows happens at this time. Time does not go
    /// back. [`Engine::cycle`] does the same.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.queues.advance(now);
    }

    /// What a queue has held. None where it does not exist.
    #[must_use]
    pub fn queue_memory(&self, queue: &QueueName) -> Option<QueueMemory> {
        let tree = self.queues.tree();
        let Remembered { at, usage } = tree.remembered(tree.find(queue)?);
        let named = |(resource, decayed)| (self.catalog.name(resource), decayed);
        Some(QueueMemory {
            at,
            usage: usage.into_iter().map(named).collect(),
        })
    }

    /// A queue had held so much at that time, and what it holds now it has held
    /// since: after a restart, once what runs has been restored. Each queue is
    /// told its own, those above others too.
    pub fn recall_queue(&mut self, queue: &QueueName, memory: &QueueMemory) {
        let usage = memory.usage.iter();
        let remembered = Remembered {
            at: memory.at,
            usage: usage
                .map(|(name, decayed)| (self.catalog.pin(name), *decayed))
                .collect(),
        };
        self.queues.recall(queue, &remembered);
    }

    /// What the nodes that take pods have together, by resource.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<ResourceName, Totals> {
        let mut totals: BTreeMap<ResourceIdx, Totals> = BTreeMap::new();
        for (at, facts) in self.nodes.iter() {
            if !facts.ready || facts.unschedulable || facts.unhealthy.is_some() {
                continue;
            }
            for resource in self.nodes.offers(at) {
                let total = totals.entry(*resource).or_default();
                let (held, others) = self.nodes.held(*resource, at);
                let allocatable = i128::from(self.nodes.allocatable(*resource, at));
                total.allocatable = total.allocatable.saturating_add(allocatable);
                total.held = total.held.saturating_add(held);
                total.others = total.others.saturating_add(others);
            }
        }
        let named = totals.into_iter();
        named
            .map(|(resource, total)| (self.catalog.name(resource), total))
            .collect()
    }

    /// How a queue stands. None where it does not exist.
    #[must_use]
    pub fn queue_standing(&self, queue: &QueueName) -> Option<QueueStanding> {
        let tree = self.queues.tree();
        let at = tree.find(queue)?;
        let lines = tree.standings(at).into_iter().map(|line| StandingLine {
            flavor: self
                .queues
                .flavors()
                .name(line.what.flavor)
                .cloned()
                .unwrap_or_default(),
            resource: self.catalog.name(line.what.resource),
            nominal: line.nominal,
            usage: line.usage,
            borrowed: line.borrowed,
            lendable: line.lendable,
            available: line.available,
        });
        Some(QueueStanding {
            fault: tree.misconfigured(at).map(ToString::to_string),
            share: tree.share(at).as_f64(),
            lines: lines.collect(),
        })
    }
}
