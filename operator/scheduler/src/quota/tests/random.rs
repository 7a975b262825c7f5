//! Generators of random queues and events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::common::{flavor_resource, name};
use super::oracle::Oracle;
use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorResource};
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::{QueueConfig, Quota, Weight};

pub const QUEUES: usize = 7;
const KINDS: [&str; 4] = ["gpu", "h100/gpu", "cpu", "pods"];

pub fn queue_name(at: usize) -> QueueName {
    name(&format!("q{at}"))
}

pub fn kinds() -> [FlavorResource; 4] {
    KINDS.map(flavor_resource)
}

fn any_quota(least: i64) -> impl Strategy<Value = Quota> {
    let limit = || prop::option::of(least..7_i64);
    (least..9_i64, limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    })
}

fn any_quotas(least: i64) -> impl Strategy<Value = BTreeMap<FlavorResource, Quota>> {
    let each = prop::option::weighted(0.8, any_quota(least));
    prop::collection::vec(each, KINDS.len()).prop_map(|quotas| {
        let named = kinds().into_iter().zip(quotas);
        named
            .filter_map(|(kind, quota)| Some((kind, quota?)))
            .collect()
    })
}

pub fn any_demand() -> impl Strategy<Value = Demand> {
    prop::collection::vec((0..KINDS.len(), 0..6_i128), 1..3).prop_map(|amounts| {
        amounts
            .into_iter()
            .map(|(at, n)| (kinds()[at], n))
            .collect()
    })
}

#[derive(Clone, Debug)]
pub enum Event {
    Apply(
        usize,
        Option<usize>,
        Option<BTreeMap<FlavorResource, Quota>>,
    ),
    Delete(usize),
    Charge(usize, Demand),
    Release(usize, Demand),
}

pub fn any_event() -> impl Strategy<Value = Event> {
    let parent = prop::option::weighted(0.7, 0..QUEUES);
    // A few amounts are negative.
    let quotas = prop_oneof![8 => any_quotas(0), 1 => any_quotas(-1)];
    let quotas = prop::option::weighted(0.8, quotas);
    prop_oneof![
        6 => (0..QUEUES, parent, quotas).prop_map(|(q, p, quotas)| Event::Apply(q, p, quotas)),
        1 => (0..QUEUES).prop_map(Event::Delete),
        4 => (0..QUEUES, any_demand()).prop_map(|(q, d)| Event::Charge(q, d)),
        2 => (0..QUEUES, any_demand()).prop_map(|(q, d)| Event::Release(q, d)),
    ]
}

fn queue_config(
    parent: Option<usize>,
    quotas: Option<BTreeMap<FlavorResource, Quota>>,
) -> QueueConfig {
    QueueConfig {
        parent: parent.map(queue_name),
        weight: Weight::default(),
        priority: 0,
        group_fault: None,
        quotas,
    }
}

pub fn apply_event(tree: &mut QuotaTree, oracle: &mut Oracle, event: Event) {
    match event {
        Event::Apply(at, parent, quotas) => {
            let member = queue_config(parent, quotas);
            tree.apply(&queue_name(at), member.clone());
            oracle.queues.insert(queue_name(at), member);
        }
        Event::Delete(at) => {
            let was = oracle.queues.remove(&queue_name(at)).is_some();
            assert_eq!(tree.delete(&queue_name(at)), was);
        }
        Event::Charge(at, demand) => {
            tree.charge(&queue_name(at), &demand);
            oracle.charge(&queue_name(at), &demand);
        }
        Event::Release(at, demand) => {
            tree.release(&queue_name(at), &demand);
            oracle.release(&queue_name(at), &demand);
        }
    }
}

/// Generates a tree with one root and without misconfigured queues, and its leaves.
pub fn any_valid_tree() -> impl Strategy<Value = (Oracle, Vec<QueueName>)> {
    let queue = (any::<prop::sample::Index>(), any_quotas(0));
    prop::collection::vec(queue, 1..QUEUES).prop_map(|queues| {
        let mut oracle = Oracle::default();
        for (at, (parent, quotas)) in queues.into_iter().enumerate() {
            let parent = (at > 0).then(|| parent.index(at.max(1)));
            let member = queue_config(parent, Some(quotas));
            oracle.queues.insert(queue_name(at), member);
        }
        let is_parent = |q: &QueueName| {
            let mut parents = oracle.queues.values().map(|m| m.parent.as_ref());
            parents.any(|p| p == Some(q))
        };
        let leaves = oracle.queues.keys().filter(|q| !is_parent(q)).cloned();
        let leaves = leaves.collect();
        (oracle, leaves)
    })
}

pub fn any_charges() -> impl Strategy<Value = Vec<(prop::sample::Index, Demand, bool)>> {
    let charge = (
        any::<prop::sample::Index>(),
        any_demand(),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(charge, 0..24)
}
