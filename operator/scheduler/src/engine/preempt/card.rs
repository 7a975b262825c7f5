//! What is read of a placed gang by those who want room.

use std::time::Duration;

use smallvec::SmallVec;

use super::super::placed::Placed;
use crate::ids::GangId;
use crate::preemption::policy::Terms;
use crate::preemption::price::Stake;
use crate::state::{DemandIdx, NodeIdx, Pods};
use crate::time::Time;

/// What so many pods hold of a node, each of them that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) node: NodeIdx,
    pub(super) demand: DemandIdx,
    pub(super) pods: u32,
}

/// Of a gang that has its place for good.
#[derive(Debug)]
pub(in crate::engine) struct Card {
    pub(in crate::engine) id: GangId,
    pub(super) terms: Terms,
    pub(super) stake: Stake,
    min_runtime: Duration,
    protected: Option<Time>,
    /// What its pods hold, node by node.
    pub(super) parts: SmallVec<[Part; 1]>,
}

impl Card {
    /// As the gang is now.
    pub(in crate::engine) fn of(placed: &Placed, pods: &Pods) -> Self {
        Self {
            id: placed.gang.id.clone(),
            terms: Terms::of(&placed.gang),
            stake: placed.stake(),
            min_runtime: placed.gang.min_runtime,
            protected: placed.protected,
            parts: parts(placed, pods),
        }
    }

    /// Until when it is no victim, in a queue where no gang is safe for longer.
    pub(super) fn safe_until(&self, cap: Option<Duration>) -> Option<Time> {
        let safe = cap.map_or(self.min_runtime, |cap| self.min_runtime.min(cap));
        let by_runtime = (!safe.is_zero()).then(|| self.stake.since.plus(safe));
        by_runtime.max(self.protected)
    }
}

/// What the pods of a gang hold: where they were planned, and where they are
/// instead.
fn parts(placed: &Placed, pods: &Pods) -> SmallVec<[Part; 1]> {
    let mut parts = SmallVec::new();
    for (shape, group) in placed.shape.groups.iter().zip(&placed.groups) {
        parts.extend(group.there().map(|(node, pods)| Part {
            node,
            demand: shape.demand_idx,
            pods,
        }));
    }
    for (group, planned) in placed.gang.groups.iter().zip(&placed.groups) {
        let gone = planned
            .gone()
            .map(|index| placed.gang.pod_key(group, index));
        let elsewhere = gone.filter_map(|pod| pods.get(&pod));
        parts.extend(elsewhere.filter(|seen| seen.held).map(|seen| Part {
            node: seen.node,
            demand: seen.demand,
            pods: 1,
        }));
    }
    parts
}
