//! Current and past usage of a resource by a queue.

use super::decay::{DecayClock, halve};
use super::tree::{QueueIdx, QuotaTree};
use crate::ids::QueueName;
use crate::state::ResourceIdx;
use crate::time::Time;

/// Decayed usage, in [`DecayedAmount::PER_UNIT`]ths of a base unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecayedAmount(i128);

impl DecayedAmount {
    const BITS: u32 = 20;

    /// The number of parts in one base unit.
    pub const PER_UNIT: i128 = 1 << Self::BITS;

    /// Creates an amount from [`DecayedAmount::PER_UNIT`]ths of a base unit. A negative number
    /// counts as 0.
    #[must_use]
    pub const fn from_parts(parts: i128) -> Self {
        Self(if parts > 0 { parts } else { 0 })
    }

    /// Returns the amount in [`DecayedAmount::PER_UNIT`]ths of a base unit.
    #[must_use]
    pub const fn as_parts(self) -> i128 {
        self.0
    }
}

/// The decayed usage of a queue's whole subtree at some time. It survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RememberedUsage {
    pub(crate) at: Time,
    /// By resource, without zeros.
    pub(crate) usage: Vec<(ResourceIdx, DecayedAmount)>,
}

/// The exact memory of a queue's past usage of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsageLag {
    pub(crate) queue: QueueName,
    pub(crate) resource: ResourceIdx,
    pub(crate) lag: i128,
    pub(crate) epoch: i64,
}

/// Units of a resource that a queue's whole subtree holds, over all flavors, and how far its
/// decayed usage lags behind (see [`super::decay`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageMemory {
    current: i128,
    /// The lag when this half-life began; in 2^-32 of a base unit.
    lag: i128,
    epoch: i64,
}

impl UsageMemory {
    pub(super) const fn current(&self) -> i128 {
        self.current
    }

    /// Adds `amount` to the usage.
    pub(super) fn add(&mut self, amount: i128, clock: &DecayClock) {
        let at = clock.current_instant();
        let added = amount.saturating_mul(at.growth);
        self.lag = self.lag(clock).saturating_add(added);
        self.epoch = at.epoch;
        self.current = self.current.saturating_add(amount);
    }

    fn lag(&self, clock: &DecayClock) -> i128 {
        halve(
            self.lag,
            clock.current_instant().epoch.saturating_sub(self.epoch),
        )
    }

    /// Returns true if there is neither current nor remembered usage.
    pub(super) fn is_empty(&self, clock: &DecayClock) -> bool {
        self.current == 0 && self.lag(clock) == 0
    }

    fn current_parts(&self) -> i128 {
        self.current.saturating_mul(DecayedAmount::PER_UNIT)
    }

    /// Returns how far the decayed usage now lags behind the current usage.
    fn lag_parts(&self, clock: &DecayClock) -> i128 {
        self.lag(clock)
            .saturating_mul(DecayedAmount::PER_UNIT)
            .checked_div(clock.current_instant().growth)
            .unwrap_or(0)
    }

    pub(super) fn decayed(&self, clock: &DecayClock) -> DecayedAmount {
        let behind = self.lag_parts(clock);
        DecayedAmount::from_parts(self.current_parts().saturating_sub(behind))
    }

    /// Returns the decayed usage that the order uses (see
    /// [`super::decay::UsageDecay::with_half_life`]).
    pub(super) fn order_usage(&self, clock: &DecayClock) -> DecayedAmount {
        let behind = self.lag_parts(clock).saturating_mul(clock.fade()) >> 32;
        DecayedAmount::from_parts(self.current_parts().saturating_sub(behind))
    }

    /// Sets the decayed usage at a time in the past. Current usage counts as held since then.
    fn restore(&mut self, decayed: DecayedAmount, at: Time, clock: &DecayClock) {
        let then = clock.instant(at);
        let behind = self.current_parts().saturating_sub(decayed.as_parts());
        // Rounds away from 0, so that `decayed` at that time returns the same value.
        let up = behind
            .signum()
            .saturating_mul(DecayedAmount::PER_UNIT.saturating_sub(1));
        self.lag = behind
            .saturating_mul(then.growth)
            .saturating_add(up)
            .checked_div(DecayedAmount::PER_UNIT)
            .unwrap_or(0);
        self.epoch = then.epoch;
    }
}

impl QuotaTree {
    /// Returns the decayed usage of a queue's subtree as of now.
    pub(crate) fn remembered_usage(&self, queue: QueueIdx) -> RememberedUsage {
        let memory = self.node(queue).into_iter().flat_map(|n| &n.memory);
        let usage = memory
            .map(|(resource, memory)| (*resource, memory.decayed(&self.clock)))
            .filter(|(_, decayed)| *decayed > DecayedAmount::default());
        RememberedUsage {
            at: self.clock.now(),
            usage: usage.collect(),
        }
    }

    /// Restores the past usage of a queue's subtree. The decayed usage was this much at that time,
    /// and current usage counts as held since then. So the caller must charge current usage first.
    /// The caller restores each queue separately, including parents.
    ///
    /// Decayed usage then equals its value without the interruption, to 2^-20 of a base unit.
    pub(crate) fn restore_memory(&mut self, queue: QueueIdx, remembered: &RememberedUsage) {
        let clock = self.clock.clone();
        let Some(node) = self.node_mut(queue) else {
            return;
        };
        let at = remembered.at.min(clock.now());
        for (resource, _) in &remembered.usage {
            node.memory.entry(*resource).or_default();
        }
        for (resource, memory) in &mut node.memory {
            let told = remembered.usage.iter().find(|(r, _)| r == resource);
            let decayed = told.map_or_else(DecayedAmount::default, |(_, decayed)| *decayed);
            memory.restore(decayed, at, &clock);
        }
        node.memory.retain(|_, memory| !memory.is_empty(&clock));
    }

    /// Returns the exact memory of all queues, by name.
    pub(crate) fn lags(&self) -> Vec<UsageLag> {
        let mut names = self.names();
        names.sort_unstable();
        let nodes = names.into_iter().filter_map(|name| {
            let node = self.node(self.number(name)?)?;
            Some((name, node))
        });
        let of = |(name, node): (&QueueName, &super::tree::TreeNode)| -> Vec<UsageLag> {
            let memory = node.memory.iter();
            memory
                .map(|(resource, memory)| UsageLag {
                    queue: name.clone(),
                    resource: *resource,
                    lag: memory.lag,
                    epoch: memory.epoch,
                })
                .collect()
        };
        nodes.flat_map(of).collect()
    }

    /// Replaces the memory of all queues.
    pub(crate) fn restore_lags(&mut self, lags: impl IntoIterator<Item = UsageLag>) {
        let names: Vec<QueueName> = self.names().into_iter().cloned().collect();
        for name in names {
            if let Some(node) = self.number(&name).and_then(|at| self.node_mut(at)) {
                for memory in node.memory.values_mut() {
                    memory.lag = 0;
                }
            }
        }
        for told in lags {
            let node = self.number(&told.queue).and_then(|at| self.node_mut(at));
            if let Some(node) = node {
                let memory = node.memory.entry(told.resource).or_default();
                memory.lag = told.lag;
                memory.epoch = told.epoch;
            }
        }
    }
}
