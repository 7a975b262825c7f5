//! The past usage of all queues, to save it and to restore it.

use super::memory::DecayedAmount;
use crate::ids::QueueName;
use crate::quota::tree::{QuotaTree, TreeNode};
use crate::state::{QueueIdx, ResourceIdx};
use crate::time::Time;

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
            let amount = remembered.usage.iter().find(|(r, _)| r == resource);
            let decayed = amount.map_or_else(DecayedAmount::default, |(_, decayed)| *decayed);
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
        let of = |(name, node): (&QueueName, &TreeNode)| -> Vec<UsageLag> {
            let memory = node.memory.iter();
            memory
                .map(|(resource, memory)| {
                    let (lag, epoch) = memory.exact_lag();
                    UsageLag {
                        queue: name.clone(),
                        resource: *resource,
                        lag,
                        epoch,
                    }
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
                    memory.set_exact_lag((0, memory.exact_lag().1));
                }
            }
        }
        for lag in lags {
            let node = self.number(&lag.queue).and_then(|at| self.node_mut(at));
            if let Some(node) = node {
                let memory = node.memory.entry(lag.resource).or_default();
                memory.set_exact_lag((lag.lag, lag.epoch));
            }
        }
    }
}
