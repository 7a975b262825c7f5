//! Tests of small random clusters with topologies against an exhaustive search.
//!
//! The tests are exact for these sizes: the engine places a gang with a required level if it fits
//! in any choice of domains. For gangs in which only one group has pods, Preferred takes the fewest
//! domains at every size. The tests assert this for them.

use std::collections::BTreeSet;

use crate::common::*;
use crate::oracle::{
    FreeAmounts, all_free, build_engine, count_fitting, empty_free_amounts, feasible_in,
};
use crate::random::{
    any_gang_with_topology, any_labelled_node, any_request, node_name, topologies,
};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Gang, Node, Placement, PlacementStrategy, Resources, TaskGroup, TopologyRequest,
    WaitReason,
};

const NODES: usize = 6;

/// Returns the labels that define a node's domain of a level.
pub fn domain(node: &Node, level: &str) -> Option<Vec<String>> {
    let all = topologies();
    let topology = all
        .iter()
        .find(|t| t.levels.iter().any(|l| l.name == level))
        .unwrap();
    let depth = topology
        .levels
        .iter()
        .position(|l| l.name == level)
        .unwrap();
    let labels = topology.levels[..=depth].iter();
    labels
        .map(|l| node.labels.get(&l.node_label).cloned())
        .collect()
}

fn domains(nodes: &[Node], level: &str) -> BTreeSet<Vec<String>> {
    nodes.iter().filter_map(|n| domain(n, level)).collect()
}

/// Returns the level that must hold the pods, or else the preferred level.
fn level(request: &TopologyRequest) -> &str {
    let level = request.required_level().or(request.preferred_level());
    level.unwrap()
}

fn required_level(request: &Option<TopologyRequest>) -> Option<&str> {
    request.as_ref()?.required_level()
}

/// Returns true if the gang fits for some choice of domains: one for the gang, and one for each
/// group that requires one.
pub fn feasible(gang: &Gang, nodes: &[Node], free: &FreeAmounts) -> bool {
    let own = gang
        .groups
        .iter()
        .map(|g| required_level(&g.topology).filter(|_| g.count > 0));
    let whole = required_level(&gang.topology).filter(|_| gang.pod_count() > 0);
    let levels: Vec<Option<&str>> = [whole].into_iter().chain(own).collect();
    let choices: Vec<Vec<Option<Vec<String>>>> = levels
        .iter()
        .map(|level| match level {
            Some(level) => domains(nodes, level).into_iter().map(Some).collect(),
            None => vec![None],
        })
        .collect();
    let mut picks: Vec<Vec<Option<Vec<String>>>> = vec![vec![]];
    for choice in &choices {
        picks = picks
            .iter()
            .flat_map(|pick| {
                choice
                    .iter()
                    .map(move |c| pick.iter().cloned().chain([c.clone()]).collect())
            })
            .collect();
    }
    picks.iter().any(|pick| {
        let inside = |at: usize, node: &Node| {
            let level = levels[at];
            level.is_none_or(|level| domain(node, level) == pick[at])
        };
        feasible_in(gang, nodes, free.clone(), &|group, node| {
            inside(0, node) && inside(group + 1, node)
        })
    })
}

fn used_nodes<'a>(placement: &Placement, nodes: &'a [Node], group: Option<&str>) -> Vec<&'a Node> {
    let mine = placement
        .groups()
        .iter()
        .filter(|g| group.is_none_or(|name| g.group.as_str() == name));
    let names: BTreeSet<_> = mine.flat_map(|g| &g.runs).map(|(node, _)| node).collect();
    nodes.iter().filter(|n| names.contains(&n.name)).collect()
}

fn is_in_one_domain(used: &[&Node], level: &str) -> bool {
    let all: BTreeSet<_> = used.iter().map(|node| domain(node, level)).collect();
    all.len() == 1 && !all.contains(&None)
}

/// Returns the fewest domains whose nodes hold all pods, and how many pods all domains hold.
fn fewest_domains(
    gang: &Gang,
    nodes: &[Node],
    free: &FreeAmounts,
    level: &str,
) -> (Option<usize>, u32) {
    let group = gang.groups.iter().find(|g| g.count > 0).unwrap();
    let held = |of: &Vec<String>| -> u32 {
        let inside = nodes
            .iter()
            .filter(|n| domain(n, level).as_ref() == Some(of));
        inside.map(|n| count_fitting(gang, group, n, free)).sum()
    };
    let held: Vec<u32> = domains(nodes, level).iter().map(held).collect();
    let subsets = 0..1_u32 << held.len();
    let picked = |subset: &u32| -> u32 {
        let bits = held.iter().enumerate();
        bits.filter(|(i, _)| subset >> i & 1 == 1)
            .map(|(_, n)| n)
            .sum()
    };
    let enough = subsets.filter(|s| picked(s) >= group.count);
    let fewest = enough.map(|s| s.count_ones() as usize).min();
    (fewest, held.iter().sum())
}

pub fn any_cluster() -> impl Strategy<Value = (Vec<Node>, Vec<(usize, Resources)>)> {
    let nodes = prop::collection::vec(any_labelled_node(NODES), 1..=NODES).prop_map(|nodes| {
        let by_name: std::collections::BTreeMap<_, _> =
            nodes.into_iter().map(|n| (n.name.clone(), n)).collect();
        by_name.into_values().collect()
    });
    (
        nodes,
        prop::collection::vec((0..NODES, any_request()), 0..4),
    )
}

/// Generates a full hall, and a gang of several groups, most of which must be in a rack.
fn any_full_hall() -> impl Strategy<Value = (Vec<Node>, Gang)> {
    let one = |at: usize| {
        (2..7_i64, 0..4_i64, 0..2_u8, 0..3_u8).prop_map(move |(cpu, gpu, block, rack)| {
            let amounts = Resources::new()
                .with("cpu", cpu)
                .with(GPU, gpu)
                .with("pods", 9);
            let node = node(node_name(at).as_str(), amounts);
            let node = label(node, "zone", "0");
            let node = label(node, "block", &format!("block-{block}"));
            label(node, "rack", &format!("rack-{rack}"))
        })
    };
    let nodes = (one(0), one(1), one(2), one(3), one(4));
    let nodes = nodes.prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e]);
    let task = move |at: usize| {
        let own = prop_oneof![
            3 => Just(Some(TopologyRequest::required("leaf"))),
            1 => Just(None),
        ];
        (1..3_u32, 1..4_i64, 0..3_i64, own).prop_map(move |(count, cpu, gpu, topology)| {
            let request = Resources::new().with("cpu", cpu).with(GPU, gpu);
            TaskGroup {
                topology,
                ..group(&format!("g{at}"), count, request)
            }
        })
    };
    let whole = prop_oneof![
        1 => Just(None),
        3 => Just(Some(TopologyRequest::required("pod"))),
        1 => Just(Some(TopologyRequest::preferred("pod"))),
        1 => Just(Some(TopologyRequest::required_and_preferred("pod", "leaf"))),
        1 => Just(Some(TopologyRequest::required("leaf"))),
    ];
    let groups = (task(0), task(1), task(2)).prop_map(|(a, b, c)| vec![a, b, c]);
    (nodes, groups, whole).prop_map(|(nodes, groups, topology)| {
        let gang = gang("w", groups);
        (nodes, Gang { topology, ..gang })
    })
}

pub fn with_topologies(mut engine: Engine) -> Engine {
    for topology in topologies() {
        engine.apply_topology(topology);
    }
    engine
}

fn check_closeness(
    gang: &Gang,
    nodes: &[Node],
    placement: &Placement,
) -> Result<(), TestCaseError> {
    if let Some(level) = required_level(&gang.topology).filter(|_| gang.pod_count() > 0) {
        prop_assert!(
            is_in_one_domain(&used_nodes(placement, nodes, None), level),
            "{level}"
        );
    }
    for group in gang.groups.iter().filter(|g| g.count > 0) {
        if let Some(level) = required_level(&group.topology) {
            let used = used_nodes(placement, nodes, Some(group.name.as_str()));
            prop_assert!(is_in_one_domain(&used, level), "{} {level}", group.name);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn gang_with_topology_is_placed_exactly_when_the_search_fits(
        (nodes, pods) in any_cluster(),
        gang in any_gang_with_topology("w".into(), NODES),
    ) {
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let before = all_free(&engine, &nodes);
        let answer = engine.try_gang(&gang, ms(0)).map(|o| o.placement);
        prop_assert_eq!(&all_free(&engine, &nodes), &before, "a trial leaves no trace");
        let again = build_engine(nodes.iter().rev(), &pods);
        prop_assert_eq!(
            &with_topologies(again).try_gang(&gang, ms(0)).map(|o| o.placement), &answer, "the order of events is nothing"
        );

        let fits = feasible(&gang, &nodes, &before);
        match answer {
            Ok(placement) => {
                prop_assert!(fits);
                prop_assert_eq!(placement.pod_count(), gang.pod_count());
                check_closeness(&gang, &nodes, &placement)?;
            }
            Err(explanation) => {
                prop_assert!(!fits, "refused what fits: {explanation}");
                let ever = feasible(&gang, &nodes, &empty_free_amounts(&nodes));
                let for_now = matches!(
                    explanation.reason,
                    WaitReason::InsufficientCapacity
                        | WaitReason::TopologyFragmented
                        | WaitReason::Fragmented
                );
                prop_assert_eq!(ever, for_now, "{}", explanation);
            }
        }
    }

    #[test]
    fn colliding_groups_are_placed_exactly_when_the_search_fits(
        (nodes, gang) in any_full_hall(),
    ) {
        let mut engine = with_topologies(build_engine(nodes.iter(), &[]));
        let free = all_free(&engine, &nodes);
        let fits = feasible(&gang, &nodes, &free);
        match engine.try_gang(&gang, ms(0)).map(|o| o.placement) {
            Ok(placement) => {
                prop_assert!(fits);
                check_closeness(&gang, &nodes, &placement)?;
            }
            Err(explanation) => prop_assert!(!fits, "refused what fits: {explanation}"),
        }
    }

    #[test]
    fn preferred_gang_takes_the_fewest_domains(
        (nodes, pods) in any_cluster(),
        gang in any_gang_with_topology("w".into(), NODES),
    ) {
        let mut gang = gang;
        gang.groups.truncate(1);
        gang.groups[0].topology = None;
        gang.groups[0].count += 3;
        let Some(level) = gang.topology.as_ref().map(|t| level(t).to_owned()) else {
            return Ok(());
        };
        gang.topology = Some(TopologyRequest::preferred(&level));
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let free = all_free(&engine, &nodes);
        let Ok(placement) = engine.try_gang(&gang, ms(0)).map(|o| o.placement) else {
            prop_assert!(!feasible(&gang, &nodes, &free), "preferring refuses nothing");
            return Ok(());
        };
        let used = used_nodes(&placement, &nodes, None);
        let (fewest, all) = fewest_domains(&gang, &nodes, &free, &level);
        match fewest {
            Some(fewest) => {
                let domains: BTreeSet<_> = used.iter().map(|n| domain(n, &level)).collect();
                prop_assert!(!domains.contains(&None), "there is room in domains");
                prop_assert_eq!(domains.len(), fewest);
            }
            None => {
                let inside = placement.iter().filter(|(_, _, name)| {
                    let node = nodes.iter().find(|n| n.name == **name).unwrap();
                    domain(node, &level).is_some()
                });
                prop_assert_eq!(inside.count(), all as usize, "outside is what does not fit inside");
            }
        }
    }

    #[test]
    fn gang_takes_the_finest_domain_that_holds_it(
        (nodes, pods) in any_cluster(),
        gang in any_gang_with_topology("w".into(), NODES),
    ) {
        let Some(asked) = gang.topology.clone().filter(|t| level(t) == "pod") else {
            return Ok(());
        };
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let free = all_free(&engine, &nodes);
        let Ok(placement) = engine.try_gang(&gang, ms(0)).map(|o| o.placement) else {
            return Ok(());
        };
        if gang.pod_count() == 0 {
            return Ok(());
        }
        for level in ["leaf", "pod"] {
            let closer = Gang {
                topology: Some(TopologyRequest::required(level)),
                ..gang.clone()
            };
            if feasible(&closer, &nodes, &free) {
                prop_assert!(is_in_one_domain(&used_nodes(&placement, &nodes, None), level), "{level}");
                return Ok(());
            }
        }
        prop_assert_eq!(asked.required_level(), None);
    }

    #[test]
    fn group_in_one_block_takes_the_fewest_racks_of_any_block(
        (nodes, pods) in any_cluster(),
        gang in any_gang_with_topology("w".into(), NODES),
        (spread, of_group) in any::<(bool, bool)>(),
    ) {
        let mut gang = gang;
        gang.groups.truncate(1);
        gang.groups[0].count += 3;
        gang.topology = Some(TopologyRequest::required("pod"));
        gang.groups[0].topology = of_group.then(|| TopologyRequest::preferred("leaf"));
        if !of_group {
            gang.topology = Some(TopologyRequest::required_and_preferred("pod", "leaf"));
        }
        if spread {
            gang.strategy = PlacementStrategy::Spread;
        }
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let free = all_free(&engine, &nodes);
        let Ok(placement) = engine.try_gang(&gang, ms(0)).map(|o| o.placement) else {
            return Ok(());
        };
        let fewest_in = |block: &Vec<String>| {
            let inside = nodes.iter().filter(|n| domain(n, "pod").as_ref() == Some(block));
            let inside: Vec<Node> = inside.cloned().collect();
            fewest_domains(&gang, &inside, &free, "leaf").0
        };
        let blocks = domains(&nodes, "pod");
        let Some(fewest) = blocks.iter().filter_map(fewest_in).min() else {
            return Ok(());
        };
        let used = used_nodes(&placement, &nodes, None);
        let racks: BTreeSet<_> = used.iter().map(|n| domain(n, "leaf")).collect();
        prop_assert!(!racks.contains(&None), "a block has room in its racks");
        prop_assert_eq!(racks.len(), fewest);
    }
}
