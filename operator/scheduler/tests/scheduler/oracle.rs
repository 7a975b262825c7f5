//! Tests of small random clusters against an exhaustive search: the engine finds what the search
//! finds, and its explanations are true.

use std::collections::BTreeMap;

use crate::common::*;
use crate::random::{any_gang, any_node, any_request, node_name};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Gang, Node, NodeName, ResourceName, Resources, TaintEffect, TaskGroup, TrialPlacement,
    WaitReason,
};

const NODES: usize = 5;

pub type FreeAmounts = BTreeMap<NodeName, BTreeMap<ResourceName, i64>>;

/// Checks the constraints of the random gangs, with a second implementation.
pub fn allows(gang: &Gang, group: &TaskGroup, node: &Node) -> bool {
    let tolerates = !group.constraints.tolerations.is_empty();
    let repels = |t: &trellis_scheduler::Taint| t.effect != TaintEffect::PreferNoSchedule;
    let zone = group.constraints.node_selector.get("zone");
    node.ready
        && !node.unschedulable
        && node.unhealthy.is_none()
        && !gang.excluded_nodes.contains(&node.name)
        && (tolerates || !node.taints.iter().any(repels))
        && zone.is_none_or(|zone| node.labels["zone"] == *zone)
}

fn request(group: &TaskGroup) -> Vec<(ResourceName, i64)> {
    let own = group.request.iter().filter(|(_, n)| *n > 0);
    let own = own.map(|(r, n)| (r.clone(), n));
    own.chain([(ResourceName::new("pods"), 1)]).collect()
}

/// Returns true if a group, by its number, may use a node.
pub type NodeFilter<'a> = &'a dyn Fn(usize, &Node) -> bool;

/// Tries every way to place this pod and all pods after it.
fn exhaustive(
    gang: &Gang,
    nodes: &[Node],
    free: &mut FreeAmounts,
    zone: NodeFilter<'_>,
    (group, left): (usize, u32),
    from: usize,
) -> bool {
    let Some(task) = gang.groups.get(group) else {
        return true;
    };
    if left == 0 {
        let next = gang.groups.get(group + 1).map_or(0, |g| g.count);
        return exhaustive(gang, nodes, free, zone, (group + 1, next), 0);
    }
    // Pods of a group are identical, so only the node of the last pod and later nodes matter.
    for at in from..nodes.len() {
        let node = &nodes[at];
        let needs = request(task);
        let fits = |have: &BTreeMap<ResourceName, i64>| {
            needs
                .iter()
                .all(|(r, n)| have.get(r).copied().unwrap_or(0) >= *n)
        };
        if !allows(gang, task, node) || !zone(group, node) || !fits(&free[&node.name]) {
            continue;
        }
        for (r, n) in &needs {
            *free.get_mut(&node.name).unwrap().get_mut(r).unwrap() -= n;
        }
        let found = exhaustive(gang, nodes, free, zone, (group, left - 1), at);
        for (r, n) in &needs {
            *free.get_mut(&node.name).unwrap().get_mut(r).unwrap() += n;
        }
        if found {
            return true;
        }
    }
    false
}

pub fn feasible(gang: &Gang, nodes: &[Node], free: FreeAmounts) -> bool {
    feasible_in(gang, nodes, free, &|_, _| true)
}

/// Returns true if the gang fits, with each group on the nodes that it may use.
pub fn feasible_in(
    gang: &Gang,
    nodes: &[Node],
    mut free: FreeAmounts,
    zone: NodeFilter<'_>,
) -> bool {
    let first = gang.groups.first().map_or(0, |g| g.count);
    exhaustive(gang, nodes, &mut free, zone, (0, first), 0)
}

/// Returns how many pods of a group a node can hold, at most all pods of the group.
pub fn count_fitting(gang: &Gang, group: &TaskGroup, node: &Node, free: &FreeAmounts) -> u32 {
    if !allows(gang, group, node) {
        return 0;
    }
    let places = request(group).into_iter().map(|(r, n)| {
        let left = free[&node.name].get(&r).copied().unwrap_or(0).max(0);
        u32::try_from(left / n).unwrap()
    });
    places.fold(group.count, u32::min)
}

pub fn all_free(engine: &Engine, nodes: &[Node]) -> FreeAmounts {
    nodes
        .iter()
        .map(|n| (n.name.clone(), engine.free(&n.name).unwrap()))
        .collect()
}

pub fn empty_free_amounts(nodes: &[Node]) -> FreeAmounts {
    let all = |n: &Node| n.allocatable.iter().map(|(r, a)| (r.clone(), a)).collect();
    nodes.iter().map(|n| (n.name.clone(), all(n))).collect()
}

pub fn build_engine<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    pods: &[(usize, Resources)],
) -> Engine {
    let mut engine = engine(nodes.cloned());
    engine.apply_queue(queue("other", None));
    for (i, (at, request)) in pods.iter().enumerate() {
        apply_pod(
            &mut engine,
            &format!("x/{i}"),
            node_name(*at).as_str(),
            request.clone(),
        );
    }
    engine
}

fn any_cluster() -> impl Strategy<Value = (Vec<Node>, Vec<(usize, Resources)>)> {
    let nodes = prop::collection::vec(any_node(NODES), 1..=NODES).prop_map(|nodes| {
        let by_name: BTreeMap<_, _> = nodes.into_iter().map(|n| (n.name.clone(), n)).collect();
        by_name.into_values().collect()
    });
    (
        nodes,
        prop::collection::vec((0..NODES, any_request()), 0..4),
    )
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn gang_is_placed_exactly_when_the_exhaustive_search_fits(
        (nodes, pods) in any_cluster(),
        gang in any_gang("w".into(), NODES),
    ) {
        let mut engine = build_engine(nodes.iter(), &pods);
        let before = all_free(&engine, &nodes);
        let answer = engine.try_gang(&gang, ms(0));
        prop_assert_eq!(&all_free(&engine, &nodes), &before, "a trial leaves no trace");

        let mut reversed = build_engine(nodes.iter().rev(), &pods);
        prop_assert_eq!(&reversed.try_gang(&gang, ms(0)), &answer, "the order of events is nothing");

        let fits = feasible(&gang, &nodes, before.clone());
        match answer {
            Ok(TrialPlacement {
                placement,
                victims,
                new_nodes,
            }) => {
                prop_assert!(fits);
                prop_assert!(victims.is_empty() && new_nodes.is_empty());
                let mut free = before;
                let mut counts: BTreeMap<_, u32> = BTreeMap::new();
                for (name, index, node) in placement.iter() {
                    let group = gang.groups.iter().find(|g| g.name == *name).unwrap();
                    let count = counts.entry(name).or_default();
                    prop_assert_eq!(*count, index);
                    *count += 1;
                    prop_assert!(allows(&gang, group, nodes.iter().find(|n| n.name == *node).unwrap()));
                    for (r, n) in request(group) {
                        let left = free.get_mut(node).unwrap().get_mut(&r).unwrap();
                        *left -= n;
                        prop_assert!(*left >= 0, "overbooked");
                    }
                }
                for group in &gang.groups {
                    prop_assert_eq!(counts.get(&group.name).copied().unwrap_or(0), group.count);
                }
            }
            Err(explanation) => {
                prop_assert!(!fits, "refused what fits: {explanation}");
                let ever = feasible(&gang, &nodes, empty_free_amounts(&nodes));
                let for_now = matches!(
                    explanation.reason,
                    WaitReason::InsufficientCapacity | WaitReason::Fragmented
                );
                prop_assert_eq!(ever, for_now, "{}", explanation);
                prop_assert!(!explanation.to_string().is_empty());
            }
        }
    }

    #[test]
    fn two_gangs_are_each_placed_exactly_when_the_search_fits(
        (nodes, pods) in any_cluster(),
        first in any_gang("a".into(), NODES),
        second in any_gang("b".into(), NODES),
    ) {
        let mut engine = build_engine(nodes.iter(), &pods);
        let fits = feasible(&first, &nodes, all_free(&engine, &nodes));
        engine.apply_gang(Gang { priority: 2, ..first });
        engine.cycle(ms(0));
        prop_assert_eq!(engine.placement(&id("a")).is_some(), fits);
        let fits = feasible(&second, &nodes, all_free(&engine, &nodes));
        engine.apply_gang(Gang { priority: 1, ..second });
        engine.cycle(ms(0));
        prop_assert_eq!(engine.placement(&id("b")).is_some(), fits);
    }
}
