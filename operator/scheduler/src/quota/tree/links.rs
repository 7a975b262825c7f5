//! Decides which queues count, and to which parent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::QuotaTree;
use super::queue_config::{QueueConfig, Quota};
use super::queue_fault::{MAX_DEPTH, QueueFault};
use super::quota_arithmetic::Contribution;
use crate::ids::QueueName;
use crate::quota::amounts::FlavorResource;
use crate::state::QueueIdx;

/// Queues in a cycle: each is below the next, and the last one is below the first.
struct ParentCycle {
    members: BTreeSet<QueueIdx>,
    /// In order, starting with the smallest name.
    names: Arc<[QueueName]>,
}

impl QuotaTree {
    /// Applies the new configuration of a queue. None: the queue is deleted.
    pub(in crate::quota) fn configure(&mut self, at: QueueIdx, member: Option<QueueConfig>) {
        let parent = member.as_ref().and_then(|m| m.parent.clone());
        let parent = parent.map(|name| self.get_or_insert(&name));
        let Some(node) = self.node_mut(at) else {
            return;
        };
        node.config = member;
        let before = std::mem::replace(&mut node.named_parent, parent);
        if before != parent {
            if let Some(parent) = parent.and_then(|p| self.node_mut(p)) {
                parent.named_by.insert(at);
            }
            if let Some(parent) = before.and_then(|p| self.node_mut(p)) {
                parent.named_by.remove(&at);
            }
        }
        self.set_quotas(at);
        self.update_validity(at);
        if let Some(before) = before.filter(|b| *b != at) {
            self.forget_unless_needed(before);
        }
    }

    /// Sets the quotas of a queue's cells to those that it names.
    fn set_quotas(&mut self, at: QueueIdx) {
        let Some(node) = self.node(at) else {
            return;
        };
        let usable = |m: &&QueueConfig| m.find_fault().is_none();
        let named = node.config.as_ref().filter(usable);
        let named = named.and_then(|m| m.quotas.clone());
        let limits = named.is_some();
        let named = named.unwrap_or_default();
        let known: BTreeSet<FlavorResource> =
            node.cells.keys().chain(named.keys()).copied().collect();
        let was = node.has_quotas;
        if let Some(node) = self.node_mut(at) {
            node.has_quotas = limits;
        }
        for what in known {
            self.set_quota(at, what, &named);
        }
        if limits != was {
            self.count_limits(Some(at), u32::from(was), u32::from(limits));
        }
    }

    fn set_quota(
        &mut self,
        at: QueueIdx,
        what: FlavorResource,
        named: &BTreeMap<FlavorResource, Quota>,
    ) {
        let quota = named.get(&what).copied();
        self.change_cell(at, what, |cell| cell.quota = quota);
    }

    /// Updates `queues_with_quotas` of this queue and of the queues above it.
    fn count_limits(&mut self, mut from: Option<QueueIdx>, before: u32, now: u32) {
        while let Some(node) = from.and_then(|at| self.node_mut(at)) {
            node.queues_with_quotas = node
                .queues_with_quotas
                .saturating_sub(before)
                .saturating_add(now);
            from = node.parent;
        }
    }

    /// Decides again which queues count: this one, and the queues below it that are affected.
    fn update_validity(&mut self, first: QueueIdx) {
        let cycle = self.find_cycle(first);
        let mut seen = BTreeSet::from([first]);
        let mut due = VecDeque::from([first]);
        while let Some(at) = due.pop_front() {
            let (fault, depth) = self.find_fault(at, cycle.as_ref());
            let Some(node) = self.node_mut(at) else {
                continue;
            };
            if node.fault != fault || node.depth != depth {
                // A change affects the queues below.
                due.extend(node.named_by.iter().filter(|below| seen.insert(**below)));
            }
            let parent = node.named_parent.filter(|_| depth > 0);
            node.fault = fault;
            node.depth = depth;
            self.attach(at, parent);
        }
    }

    /// Returns the cycle of parents that a queue is part of. Any cycle among the queues below `at`
    /// contains `at`.
    fn find_cycle(&self, at: QueueIdx) -> Option<ParentCycle> {
        let parent = |of: &QueueIdx| self.node(*of)?.named_parent;
        // A queue without children is on no cycle.
        if self.is_leaf(at) {
            return None;
        }
        let mut on_the_way = vec![at];
        let mut members = BTreeSet::from([at]);
        let mut above = parent(&at)?;
        while above != at {
            if !members.insert(above) {
                return None;
            }
            on_the_way.push(above);
            above = parent(&above)?;
        }
        let mut names: Vec<QueueName> = on_the_way
            .iter()
            .filter_map(|member| self.name(*member).cloned())
            .collect();
        let first = names.iter().enumerate().min_by_key(|(_, name)| *name);
        let first = first.map_or(0, |(place, _)| place);
        names.rotate_left(first);
        let names = names.into();
        Some(ParentCycle { members, names })
    }

    /// Returns the fault of a queue, if any, and its depth. The caller must have updated the fault
    /// of the parent first.
    fn find_fault(&self, at: QueueIdx, cycle: Option<&ParentCycle>) -> (Option<QueueFault>, usize) {
        let Some((node, member)) = self.node(at).and_then(|n| Some((n, n.config.as_ref()?))) else {
            return (None, 0);
        };
        let wrong = |fault| (Some(fault), 0);
        if node.named_parent == Some(at) {
            return wrong(QueueFault::OwnParent);
        }
        if let Some(cycle) = cycle.filter(|cycle| cycle.members.contains(&at)) {
            let members = Arc::clone(&cycle.names);
            return wrong(QueueFault::Cycle { members });
        }
        if let Some(fault) = member.find_fault() {
            return wrong(fault);
        }
        let Some(parent) = node.named_parent.and_then(|p| self.node(p)) else {
            return (None, 1);
        };
        let name = parent.name.clone();
        if parent.config.is_none() {
            return wrong(QueueFault::ParentNotFound { parent: name });
        }
        if parent.fault.is_some() {
            return wrong(QueueFault::ParentFaulty { parent: name });
        }
        if parent.depth >= MAX_DEPTH {
            return wrong(QueueFault::TooDeep);
        }
        (None, parent.depth.saturating_add(1))
    }

    /// Moves a queue, with all queues below it, to the parent that it counts to from now on.
    fn attach(&mut self, at: QueueIdx, parent: Option<QueueIdx>) {
        let Some(node) = self.node_mut(at) else {
            return;
        };
        let before = std::mem::replace(&mut node.parent, parent);
        if before == parent {
            return;
        }
        let limiting = node.queues_with_quotas;
        let cells: Vec<(FlavorResource, Contribution)> = node
            .cells
            .iter()
            .map(|(what, cell)| (*what, cell.contribution()))
            .collect();
        let held: Vec<_> = node.memory.iter().map(|(r, m)| (*r, m.current())).collect();
        let nothing = Contribution::default();
        if let Some(before) = before {
            for (what, contribution) in &cells {
                self.propagate(before, *what, at, contribution, &nothing);
            }
            self.count_limits(Some(before), limiting, 0);
            for (resource, amount) in &held {
                self.add_to_memory(before, *resource, amount.saturating_neg());
            }
        }
        if let Some(parent) = parent {
            for (what, contribution) in &cells {
                self.propagate(parent, *what, at, &nothing, contribution);
            }
            self.count_limits(Some(parent), 0, limiting);
            for (resource, amount) in &held {
                self.add_to_memory(parent, *resource, *amount);
            }
        }
    }
}
