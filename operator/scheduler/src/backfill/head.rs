//! A head, and what others must do about it.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::{End, PATIENCE, Plan, Reservation, TRUST};
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{Placement, excluded};
use crate::queueing::OrderKey;
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx, NodeIdx, Nodes, Shape};
use crate::time::Time;

/// A gang that others must not make later.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) at: GangIdx,
    pub(crate) gang: Arc<Gang>,
    pub(crate) key: OrderKey,
    /// What it would be charged.
    pub(crate) demand: Demand,
    /// The nodes that it may use.
    pub(crate) pool: FixedBitSet,
    pub(crate) plan: Plan,
    /// The place of the plan, by name.
    pub(crate) placement: Placement,
}

/// A gang that would start now: what backfill looks at of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) end: Option<End>,
    pub(crate) preemptible: bool,
    /// Its queue lets its gangs pass others.
    pub(crate) backfill: bool,
}

impl Stay {
    /// Whether it ends in time for a head that has waited since it was submitted.
    pub(crate) fn ends_by(&self, start: Time, submitted: Time, now: Time) -> bool {
        self.end
            .is_some_and(|end| end.at <= start && (end.certain || now < submitted.plus(TRUST)))
    }
}

/// What a gang must do about a head that it comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Restraint {
    /// Leave what the head's place will lack.
    Keep,
    /// Keep off the nodes of its place.
    Avoid,
    /// Not start at all.
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

    /// Whether it asks of others what another did.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let plans = (&self.plan, &other.plan);
        self.at == other.at
            && self.key == other.key
            && plans.0.start == plans.1.start
            && plans.0.groups == plans.1.groups
            && self.pool == other.pool
            && plans.0.keep == plans.1.keep
    }

    /// None: it is free to start anywhere.
    pub(crate) fn restrains(&self, stay: &Stay, now: Time) -> Option<Restraint> {
        if !stay.backfill {
            return Some(Restraint::Stop);
        }
        let keep = (!self.plan.keep.is_empty()).then_some(Restraint::Keep);
        match self.plan.start {
            Some(start) if stay.ends_by(start, self.gang.submitted, now) => None,
            Some(_) => keep,
            None if self.gang.submitted.plus(PATIENCE) <= now => Some(Restraint::Avoid),
            None if stay.preemptible => None,
            None => keep,
        }
    }

    /// The nodes of its place.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.plan.groups.iter().flatten().map(|(node, _)| *node)
    }

    /// Whether a gang of this shape may use a node that it may use.
    pub(crate) fn meets(&self, shape: &Shape, catalog: &Catalog, nodes: &Nodes) -> bool {
        let excluded = excluded(shape, nodes);
        shape.groups.iter().any(|group| {
            let signature = catalog.signature(group.signature);
            signature.is_some_and(|s| {
                s.nodes()
                    .any(|n| self.pool.contains(n.at()) && !excluded.contains(&n))
            })
        })
    }
}

/// The nodes that a gang of this shape may use.
pub(crate) fn pool(shape: &Shape, catalog: &Catalog, nodes: &Nodes) -> FixedBitSet {
    let mut pool = FixedBitSet::with_capacity(nodes.len());
    for group in &shape.groups {
        let allowed = catalog.signature(group.signature);
        for node in allowed.into_iter().flat_map(|s| s.nodes()) {
            pool.insert(node.at());
        }
    }
    for node in excluded(shape, nodes) {
        pool.set(node.at(), false);
    }
    pool
}
