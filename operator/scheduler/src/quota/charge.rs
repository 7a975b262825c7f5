//! What is charged to queues, and what of it counts above them. One event costs
//! the depth of the queue.

use super::amounts::{Demand, FlavorResource};
use super::cell::{Cell, Contribution};
use super::tree::{QueueIdx, Tree};
use crate::ids::QueueName;
use crate::state::ResourceIdx;

impl Tree {
    /// Charges a gang, whatever the quota says and whether or not there is such a
    /// queue.
    ///
    /// The resources must keep their numbers for good (see
    /// [`crate::state::Catalog::pin`]): they are remembered after they are given back.
    pub(crate) fn charge(&mut self, queue: &QueueName, demand: &Demand) {
        let at = self.hold(queue);
        for (what, amount) in demand.iter() {
            self.change(at, what, |cell| cell.own = cell.own.saturating_add(amount));
            self.remember(at, what.resource, amount);
        }
        self.forget_unless_needed(at);
    }

    /// Takes a charge back. What was never charged cannot be taken back.
    pub(crate) fn release(&mut self, queue: &QueueName, demand: &Demand) {
        let Some(at) = self.number(queue) else {
            return;
        };
        for (what, amount) in demand.iter() {
            let mut taken = 0;
            self.change(at, what, |cell| {
                taken = amount.min(cell.own);
                cell.own = cell.own.saturating_sub(taken);
            });
            self.remember(at, what.resource, taken.saturating_neg());
        }
        self.forget_unless_needed(at);
    }

    /// Changes a cell, and what the queues above count of it.
    pub(super) fn change(
        &mut self,
        at: QueueIdx,
        what: FlavorResource,
        change: impl FnOnce(&mut Cell),
    ) {
        if let Some((before, now, Some(parent))) = self.change_one(at, what, change) {
            self.absorb(parent, what, at, &before, &now);
        }
    }

    /// What a child contributes has changed: so has, perhaps, what its parent does.
    pub(super) fn absorb(
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
            let change = |cell: &mut Cell| cell.replace((child, name), &before, &now);
            let Some((own_before, own_now, Some(parent))) = self.change_one(at, what, change)
            else {
                return;
            };
            (before, now) = (own_before, own_now);
            (child, at) = (at, parent);
        }
    }

    /// Changes a cell. Tells what it contributed before, does now, and to whom.
    fn change_one(
        &mut self,
        at: QueueIdx,
        what: FlavorResource,
        change: impl FnOnce(&mut Cell),
    ) -> Option<(Contribution, Contribution, Option<QueueIdx>)> {
        let pods = self.pods;
        let node = self.node_mut(at)?;
        let cell = node.cells.entry(what).or_default();
        let before = cell.contribution();
        change(cell);
        cell.exempt = what.resource == pods && node.limits && cell.quota.is_none();
        let now = cell.contribution();
        if cell.is_empty() {
            node.cells.remove(&what);
        }
        Some((before, now, node.parent))
    }

    /// So much more is held of a resource, from here up.
    pub(super) fn remember(&mut self, from: QueueIdx, resource: ResourceIdx, amount: i128) {
        let clock = self.clock.clone();
        let mut next = Some(from);
        while let Some(node) = next.and_then(|at| self.node_mut(at)) {
            let memory = node.memory.entry(resource).or_default();
            memory.change(amount, &clock);
            if memory.is_empty(&clock) {
                node.memory.remove(&resource);
            }
            next = node.parent;
        }
    }
}
