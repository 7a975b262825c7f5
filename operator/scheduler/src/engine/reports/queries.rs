//! Reads of the engine: gangs, their places, and the usage of nodes and queues.

use std::collections::{BTreeMap, HashMap};

use super::super::{Engine, gang_table};
use crate::explain::{WaitExplanation, WaitReason};
use crate::ids::{GangId, NodeName, QueueName, ResourceName};
use crate::placement::Placement;
use crate::preemption::lost_work::Stake;
use crate::queue::{GroupFlavors, QueueCounts};
use crate::state::GangShape;
use crate::time::Time;

impl Engine {
    /// Returns the explanation of a pending gang from its last try. The engine tries the gang again
    /// after each change that could let it start or change the reason. So the reason is current,
    /// but its numbers may be older; for current numbers see [`Engine::explain`]. None: the gang is
    /// not pending, or no cycle has tried it yet.
    #[must_use]
    pub fn explanation(&self, gang: &GangId) -> Option<&WaitExplanation> {
        self.gangs.get(self.gangs.find(gang)?)?.explanation()
    }

    /// Returns the position of a pending gang in its queue, from 1. The cost is linear in the
    /// number of gangs before it.
    #[must_use]
    pub fn position(&self, gang: &GangId) -> Option<usize> {
        self.scheduling_queue
            .position(&self.gangs.get(self.gangs.find(gang)?)?.gang)
    }

    /// Returns the placement of a placed gang.
    #[must_use]
    pub fn placement(&self, gang: &GangId) -> Option<Placement> {
        let placed = self.gangs.placed(self.gangs.find(gang)?)?;
        Some(placed.placement(&self.nodes))
    }

    /// Returns what a placed gang would lose as a victim.
    pub(crate) fn stake(&self, gang: &GangId) -> Option<Stake> {
        Some(self.gangs.placed(self.gangs.find(gang)?)?.stake())
    }

    /// Returns the labels that identify the node's domain of `level`. None: no topology has the
    /// level, or the node lacks one of its labels.
    #[must_use]
    pub fn domain_labels(&self, level: &str, node: &NodeName) -> Option<BTreeMap<String, String>> {
        self.nodes.domain_labels(level, node)
    }

    /// Returns the flavors that a placed gang is charged to, by task group and resource. A group
    /// whose queue offers what the nodes have is charged to none.
    #[must_use]
    pub fn flavors(&self, gang: &GangId) -> Option<Vec<GroupFlavors>> {
        let placed = self.gangs.placed(self.gangs.find(gang)?)?;
        Some(gang_table::group_flavors(&placed.gang, &placed.choices))
    }

    /// Returns the free amount of each resource that a node lists, in base units; negative if the
    /// node shrank below its usage. None: the node does not exist.
    #[must_use]
    pub fn free(&self, node: &NodeName) -> Option<BTreeMap<ResourceName, i64>> {
        let at = self.nodes.find(node)?;
        self.nodes.properties(at)?;
        let offers = self.nodes.listed_resources(at).iter();
        Some(
            offers
                .map(|r| (self.catalog.name(*r), self.nodes.free(*r, at)))
                .collect(),
        )
    }

    /// Returns the units of a queue's quota that placed gangs hold, by resource, in base units. A
    /// gang is charged as a whole. Empty: no gang holds any.
    #[must_use]
    pub fn queue_usage(&self, queue: &QueueName) -> BTreeMap<ResourceName, i128> {
        self.queues
            .usage(queue)
            .into_iter()
            .map(|(resource, used)| (self.catalog.name(resource), used))
            .collect()
    }

    /// Returns the numbers of pending and placed gangs of each queue, without surplus. Omits queues
    /// without any.
    #[must_use]
    pub fn queue_counts(&self) -> BTreeMap<QueueName, QueueCounts> {
        let mut counts: BTreeMap<QueueName, QueueCounts> = BTreeMap::new();
        for (queue, pending) in self.scheduling_queue.counts_by_queue() {
            counts.entry(queue.clone()).or_default().pending = pending;
        }
        let holders = self.queues.holders();
        for (queue, admitted) in holders {
            counts.entry(queue.clone()).or_default().admitted = admitted;
        }
        for (_, keep) in self
            .kept_places
            .iter()
            .filter(|(_, keep)| !keep.gang.surplus)
        {
            // A gang with a kept place is charged, but not placed.
            if let Some(counts) = counts.get_mut(&keep.gang.queue) {
                counts.admitted = counts.admitted.saturating_sub(1);
            }
        }
        counts.retain(|_, counts| *counts != QueueCounts::default());
        counts
    }

    /// Returns the pending gangs, by name.
    pub fn pending_gangs(&self) -> impl Iterator<Item = &GangId> {
        let pending = self.gangs.iter().filter(|(_, state)| state.is_pending());
        pending.map(|(_, state)| &state.gang.id)
    }

    /// Returns the pending gangs that may start when other gangs end, as of their last try, without
    /// surplus. Each list has gangs of one queue with the same demand, in the order of the queue.
    pub(crate) fn equal_waiting_gangs(&self) -> Vec<Vec<GangId>> {
        let mut lists: Vec<Vec<GangId>> = Vec::new();
        for (queue, _) in self.scheduling_queue.counts_by_queue() {
            let mut list_of: HashMap<&GangShape, usize> = HashMap::new();
            let gangs = self.scheduling_queue.gangs_in_order(queue);
            for state in gangs.filter_map(|at| self.gangs.get(at)) {
                let reason = state.explanation().map(|explanation| explanation.reason);
                if state.gang.surplus || !reason.is_some_and(WaitReason::ends_with_usage) {
                    continue;
                }
                let list = *list_of.entry(&state.shape).or_insert_with(|| {
                    lists.push(Vec::new());
                    lists.len().saturating_sub(1)
                });
                if let Some(list) = lists.get_mut(list) {
                    list.push(state.gang.id.clone());
                }
            }
        }
        lists
    }

    /// Returns the number of pending gangs.
    #[must_use]
    pub fn pending_gang_count(&self) -> usize {
        self.scheduling_queue.count()
    }

    /// Returns the number of placed gangs.
    #[must_use]
    pub fn placed_gang_count(&self) -> usize {
        self.gangs.placed_count()
    }

    /// Returns the number of known pods.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.known().len()
    }

    /// Returns the next time at which a cycle has work even without any change. It has work when
    /// the first back-off ends, when a gang is past an end that a reservation relies on, or when a
    /// kept place ends.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let alarm = self.scheduling_queue.next_alarm();
        let times = [
            alarm,
            self.reservations.expires_at(),
            self.kept_places.first_end(),
            self.first_provisioning_end(),
        ];
        times.into_iter().flatten().min()
    }
}
