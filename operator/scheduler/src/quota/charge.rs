//! Charges to queues, and the part of them that counts in the queues above. The time of a charge
//! grows with the depth of the queue.

use super::amounts::{Demand, FlavorResource};
use super::tree::QuotaTree;
use super::tree::quota_arithmetic::{Contribution, QuotaCell};
use crate::ids::QueueName;
use crate::state::{QueueIdx, ResourceIdx};

impl QuotaTree {
    /// Charges a gang, even above quota and even if the queue does not exist.
    ///
    /// The resources must keep their numbers for good (see [`crate::state::Catalog::pin`]), because
    /// the tree remembers usage after it has been released.
    pub(crate) fn charge(&mut self, queue: &QueueName, demand: &Demand) {
        let at = self.get_or_insert(queue);
        for (what, amount) in demand.iter() {
            self.change_cell(at, what, |cell| cell.own = cell.own.saturating_add(amount));
            self.add_to_memory(at, what.resource, amount);
        }
        self.forget_unless_needed(at);
    }

    /// Releases a charge, at most the charged amount.
    pub(crate) fn release(&mut self, queue: &QueueName, demand: &Demand) {
        let Some(at) = self.number(queue) else {
            return;
        };
        for (what, amount) in demand.iter() {
            let mut taken = 0;
            self.change_cell(at, what, |cell| {
                taken = amount.min(cell.own);
                cell.own = cell.own.saturating_sub(taken);
            });
            self.add_to_memory(at, what.resource, taken.saturating_neg());
        }
        self.forget_unless_needed(at);
    }

    /// Changes a cell, and the contributions to the queues above.
    pub(super) fn change_cell(
        &mut self,
        at: QueueIdx,
        what: FlavorResource,
        change: impl FnOnce(&mut QuotaCell),
    ) {
        if let Some((before, now, Some(parent))) = self.change_single_cell(at, what, change) {
            self.propagate(parent, what, at, &before, &now);
        }
    }

    /// Passes a changed contribution of a child up the tree, until a queue's own contribution stays
    /// the same.
    pub(super) fn propagate(
        &mut self,
        mut at: QueueIdx,
        what: FlavorResource,
        mut child: QueueIdx,
        before: &Contribution,
        now: &Contribution,
    ) {
        let (mut before, mut now) = (*before, *now);
        while before != now {
            let Some(name) = self.name(child).cloned() else {
                return;
            };
            let change = |cell: &mut QuotaCell| cell.replace((child, name), &before, &now);
            let Some((own_before, own_now, Some(parent))) =
                self.change_single_cell(at, what, change)
            else {
                return;
            };
            (before, now) = (own_before, own_now);
            (child, at) = (at, parent);
        }
    }

    /// Changes a cell. Returns its contribution before and after, and the parent that counts it.
    fn change_single_cell(
        &mut self,
        at: QueueIdx,
        what: FlavorResource,
        change: impl FnOnce(&mut QuotaCell),
    ) -> Option<(Contribution, Contribution, Option<QueueIdx>)> {
        let pods = self.pods;
        let node = self.node_mut(at)?;
        let counts_only_if_named = node.counts_only_if_named(what, pods);
        let cell = node.cells.entry(what).or_default();
        let before = cell.contribution();
        change(cell);
        cell.exempt = counts_only_if_named && cell.quota.is_none();
        let now = cell.contribution();
        if cell.is_empty() {
            node.cells.remove(&what);
        }
        Some((before, now, node.parent))
    }

    /// Adds `amount` to the remembered usage of a resource, from this queue up.
    pub(super) fn add_to_memory(&mut self, from: QueueIdx, resource: ResourceIdx, amount: i128) {
        let clock = self.clock.clone();
        let mut next = Some(from);
        while let Some(node) = next.and_then(|at| self.node_mut(at)) {
            let memory = node.memory.entry(resource).or_default();
            memory.add(amount, &clock);
            if memory.is_empty(&clock) {
                node.memory.remove(&resource);
            }
            next = node.parent;
        }
    }
}
