//! Who holds what a queue may ask back.
//!
//! Kueue's rules for `reclaimWithinCohort` (`pkg/scheduler/preemption/classical/
//! hierarchical_preemption.go`): on the way from the queue to its root, what may
//! be asked back at each queue is held below it, in queues that hold more than
//! their quota by way of queues that all do. As soon as the demand, less what local
//! quota covers, is within the quota of a queue on the way, those that are met
//! further up owe it. Which of their gangs may be victims, and whether borrowed
//! amounts may be asked back by who would borrow too, the queues' policies say.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::amounts::{Demand, FlavorResource};
use super::cell::Cell;
use super::room::Offer;
use super::share::Share;
use super::tree::{Node, QueueIdx, Tree};
use crate::ids::QueueName;

/// A queue that holds what another may ask back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reclaimable {
    pub(crate) queue: QueueName,
    /// The lowest queue that both are below.
    pub(crate) common: QueueName,
    /// The demand is within guaranteed quota below the common queue, so it is
    /// owed; else who asks would borrow as well, as far as the common queue sees.
    pub(crate) owed: bool,
    /// How much may be asked back of this queue, in base units, in their order.
    /// Several queues below one that holds less than all of them borrow cannot all
    /// be asked for that much: ask again after each.
    pub(crate) amounts: Vec<(FlavorResource, i128)>,
}

/// A queue that holds more than its quota, met on the way to the root.
struct Found<'a> {
    at: QueueIdx,
    node: &'a Node,
    /// The lowest queue that it and the queue that asks are below.
    common: QueueIdx,
    /// The least that any queue from below the common one down to this one holds
    /// beyond its quota: giving back more would not be felt there.
    amount: i128,
}

/// Where a queue comes in the order of reclaim: who holds most for its weight
/// first, at each level of the tree.
type Rank = (Reverse<bool>, Vec<(Reverse<Share>, QueueName)>);

impl Tree {
    /// The queues that hold what a queue lacks of a demand. Those that owe it come
    /// first; among them, at each level of the tree, the one that holds most for
    /// its weight, by what is held now and not by what has been; ties by name.
    pub(crate) fn reclaimable(&self, queue: QueueIdx, demand: &Demand) -> Vec<Reclaimable> {
        let lacking: Vec<(FlavorResource, i128)> = demand
            .iter()
            .filter(|(what, need)| {
                self.offer(queue, *what) == Offer::Quota
                    && self
                        .climb(queue, *what, *need, Cell::usage)
                        .any(|step| step.missing > 0)
            })
            .collect();
        let owing = self.owing(queue, demand);
        let mut found: BTreeMap<QueueIdx, Reclaimable> = BTreeMap::new();
        for (what, need) in lacking {
            let mut tell = |borrower: &Found<'_>| {
                let Some(common) = self.name(borrower.common) else {
                    return;
                };
                let of_queue = found.entry(borrower.at).or_insert_with(|| Reclaimable {
                    queue: borrower.node.name.clone(),
                    common: common.clone(),
                    owed: owing.contains(&borrower.common),
                    amounts: Vec::new(),
                });
                of_queue.amounts.push((what, borrower.amount));
            };
            for (below, common, cell) in self.sources(queue, what, need) {
                for child in cell.over.iter().filter(|c| Some(c.queue) != below) {
                    self.descend(child.queue, common, what, i128::MAX, &mut tell);
                }
            }
        }
        let mut shares = BTreeMap::new();
        let mut ranked: Vec<(Rank, Reclaimable)> = found
            .into_iter()
            .map(|(at, reclaimable)| {
                let rank = (Reverse(reclaimable.owed), self.held_path(at, &mut shares));
                (rank, reclaimable)
            })
            .collect();
        ranked.sort_by(|a, b| a.0.cmp(&b.0));
        ranked.into_iter().map(|(_, r)| r).collect()
    }

    /// The queues above a queue in which a demand is owed to it: below them, it is
    /// within the quota of a queue on the way.
    pub(super) fn owing(&self, queue: QueueIdx, demand: &Demand) -> Vec<QueueIdx> {
        let mut rest: Vec<(FlavorResource, i128)> = demand
            .iter()
            .filter(|(what, _)| self.offer(queue, *what) == Offer::Quota)
            .collect();
        let mut owing = Vec::new();
        let mut owed = false;
        for (at, node) in self.path(queue) {
            if owed {
                owing.push(at);
            }
            owed = owed
                || rest.iter().all(|(what, need)| {
                    let cell = node.cell(*what);
                    cell.usage().saturating_add(*need) <= cell.subtree()
                });
            for (what, need) in &mut rest {
                let cell = node.cell(*what);
                *need = cell.beyond_local(*need, cell.usage());
            }
        }
        owing
    }

    /// A queue's place among its siblings and those of all above it.
    fn held_path(
        &self,
        at: QueueIdx,
        shares: &mut BTreeMap<QueueIdx, Share>,
    ) -> Vec<(Reverse<Share>, QueueName)> {
        let mut path: Vec<_> = self
            .path(at)
            .map(|(at, node)| {
                let share = *shares.entry(at).or_insert_with(|| self.held_share(node));
                (Reverse(share), node.name.clone())
            })
            .collect();
        path.reverse();
        path
    }

    /// The queues on the way up from which what a queue lacks for `need` more could
    /// come, each with the one below it on the way.
    pub(super) fn sources(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
    ) -> Vec<(Option<QueueIdx>, QueueIdx, &Cell)> {
        // Above the highest limit that stands in the way nothing is missing.
        let highest = self
            .climb(queue, what, need, Cell::usage)
            .enumerate()
            .filter(|(_, step)| step.missing > 0)
            .last();
        let count = highest.map_or(0, |(level, _)| level.saturating_add(1));
        let mut below = None;
        let path = self.path(queue).take(count);
        path.map(|(at, node)| (below.replace(at), at, node.cell(what)))
            .collect()
    }

    fn descend(
        &self,
        at: QueueIdx,
        common: QueueIdx,
        what: FlavorResource,
        most: i128,
        tell: &mut dyn FnMut(&Found<'_>),
    ) {
        let Some(node) = self.node(at) else {
            return;
        };
        let cell = node.cell(what);
        let most = most.min(cell.borrowed());
        let amount = most.min(cell.counted());
        if amount > 0 {
            tell(&Found {
                at,
                node,
                common,
                amount,
            });
        }
        for child in &cell.over {
            self.descend(child.queue, common, what, most, tell);
        }
    }
}
