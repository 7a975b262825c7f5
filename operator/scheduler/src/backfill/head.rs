//! Heads of queues, and their restrictions on the gangs behind them.

use std::sync::Arc;
use std::time::Duration;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use super::plan::StartPlan;
use super::run_term::ExpectedEnd;
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{Placement, excluded_nodes};
use crate::queueing::OrderKey;
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx, GangShape, NodeIdx, Nodes};
use crate::time::Time;

/// How long, from its submission, a head with an unknown start lets preemptible gangs use its
/// nodes.
pub(super) const UNKNOWN_START_PATIENCE: Duration = Duration::from_secs(600);

/// How long, from its submission, a head lets gangs pass whose end in time is only a prediction. A
/// gang that exceeds its prediction delays the head, and without this bound such delays could go on
/// for ever.
pub(super) const PREDICTION_TRUST: Duration = Duration::from_secs(86_400);

/// The reservation of the first gang in order that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The gang.
    pub gang: GangId,
    /// When the gang starts if running gangs end on time. None: a gang that must end first has no
    /// known end, or is past its end.
    pub start: Option<Time>,
    /// Where its pods would go at that time.
    pub placement: Placement,
}

/// A gang that waits for room. Gangs behind it must not delay it.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) gang_idx: GangIdx,
    pub(crate) gang: Arc<Gang>,
    pub(crate) key: OrderKey,
    /// The demand that the engine would charge.
    pub(crate) demand: Demand,
    /// The nodes that it may use.
    pub(crate) usable_nodes: FixedBitSet,
    pub(crate) plan: StartPlan,
    /// The placement of the plan, by node name.
    pub(crate) placement: Placement,
}

/// The properties of a gang that would start now that backfill uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackfillCandidate {
    pub(crate) end: Option<ExpectedEnd>,
    pub(crate) preemptible: bool,
    /// True if its queue allows backfill.
    pub(crate) backfill: bool,
}

impl BackfillCandidate {
    /// Returns true if the gang ends by `start` of a head with submission time `submitted`. A
    /// predicted end counts only until the head has waited for [`PREDICTION_TRUST`].
    pub(crate) fn ends_by(&self, start: Time, submitted: Time, now: Time) -> bool {
        self.end.is_some_and(|end| {
            end.at <= start && (end.certain || now < submitted.plus(PREDICTION_TRUST))
        })
    }
}

/// The restriction of a head on a gang behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Restriction {
    /// The gang must leave free the room that the head's placement will lack.
    Keep,
    /// The gang must not use the nodes of the head's placement.
    Avoid,
    /// The gang must not start.
    Stop,
}

impl Head {
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation {
            gang: self.gang.id.clone(),
            start: self.plan.start,
            placement: self.placement.clone(),
        }
    }

    pub(crate) fn id(&self) -> &GangId {
        &self.gang.id
    }

    /// Returns true if it restricts other gangs in the same way as `other`.
    pub(crate) fn restricts_same(&self, other: &Self) -> bool {
        let plans = (&self.plan, &other.plan);
        self.gang_idx == other.gang_idx
            && self.key == other.key
            && plans.0.start == plans.1.start
            && plans.0.groups == plans.1.groups
            && self.usable_nodes == other.usable_nodes
            && plans.0.reserved_room == plans.1.reserved_room
    }

    /// Returns the restriction on a gang behind the head. None: the gang may start anywhere.
    pub(crate) fn restriction_for(
        &self,
        stay: &BackfillCandidate,
        now: Time,
    ) -> Option<Restriction> {
        if !stay.backfill {
            return Some(Restriction::Stop);
        }
        let keep = (!self.plan.reserved_room.is_empty()).then_some(Restriction::Keep);
        match self.plan.start {
            Some(start) if stay.ends_by(start, self.gang.submitted, now) => None,
            Some(_) => keep,
            None if self.gang.submitted.plus(UNKNOWN_START_PATIENCE) <= now => {
                Some(Restriction::Avoid)
            }
            None if stay.preemptible => None,
            None => keep,
        }
    }

    /// Returns the nodes of its placement.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.plan.groups.iter().flatten().map(|(node, _)| *node)
    }

    /// Returns true if a gang of this shape may use a node that the head may use.
    pub(crate) fn shares_nodes_with(
        &self,
        shape: &GangShape,
        catalog: &Catalog,
        nodes: &Nodes,
    ) -> bool {
        let excluded = excluded_nodes(shape, nodes);
        shape.groups.iter().any(|group| {
            let signature = catalog.signature(group.signature);
            signature.is_some_and(|s| {
                s.nodes()
                    .any(|n| self.usable_nodes.contains(n.at()) && !excluded.contains(&n))
            })
        })
    }
}

/// Returns the nodes that a gang of this shape may use.
pub(crate) fn usable_nodes(shape: &GangShape, catalog: &Catalog, nodes: &Nodes) -> FixedBitSet {
    let mut pool = FixedBitSet::with_capacity(nodes.index_bound());
    for group in &shape.groups {
        let allowed = catalog.signature(group.signature);
        for node in allowed.into_iter().flat_map(|s| s.nodes()) {
            pool.insert(node.at());
        }
    }
    for node in excluded_nodes(shape, nodes) {
        pool.set(node.at(), false);
    }
    pool
}
