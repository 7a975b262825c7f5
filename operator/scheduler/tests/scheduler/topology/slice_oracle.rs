//! Tests of slices in small random clusters against an exhaustive search.

use std::collections::BTreeMap;

use crate::common::*;
use crate::oracle::{FreeAmounts, all_free, build_engine, count_fitting};
use crate::preemption::LOWER;
use crate::topology::oracle::{any_cluster, domain, feasible, with_topologies};
use proptest::prelude::*;
use trellis_scheduler::{
    Decision, Engine, Gang, Node, Placement, PlacementStrategy, Queue, ResourceName, Resources,
    SliceLayer, TaskGroup, TopologyRequest,
};

/// Returns the domain of each pod of a group, in order.
fn domains_of_pods(
    placement: &Placement,
    nodes: &[Node],
    group: &TaskGroup,
    level: &str,
) -> Vec<Option<Vec<String>>> {
    let placed = placement.groups().iter().find(|g| g.group == group.name);
    let runs = placed.map_or(&[][..], |g| &g.runs);
    let pods = runs.iter().flat_map(|(name, pods)| {
        let node = nodes.iter().find(|node| node.name == *name).unwrap();
        (0..*pods).map(|_| domain(node, level))
    });
    pods.collect()
}

fn check_slices(gang: &Gang, nodes: &[Node], placement: &Placement) -> Result<(), TestCaseError> {
    for group in &gang.groups {
        for layer in &group.slices {
            let pods = domains_of_pods(placement, nodes, group, &layer.level);
            prop_assert_eq!(pods.len(), group.count as usize);
            for slice in pods.chunks(layer.pods as usize) {
                prop_assert!(slice[0].is_some(), "{layer:?}");
                prop_assert!(
                    slice.iter().all(|domain| *domain == slice[0]),
                    "{layer:?} {pods:?}"
                );
            }
        }
    }
    Ok(())
}

/// Tries each domain for each outer slice, and each inner domain for each inner slice. Pods of one
/// group are alike and each fits on one node, so the number that fits in each rack decides.
fn feasible_in_layers(gang: &Gang, nodes: &[Node], free: &FreeAmounts) -> bool {
    let group = &gang.groups[0];
    let [outer, inner] = &group.slices[..] else {
        panic!("two layers");
    };
    let mut room: BTreeMap<(Vec<String>, Vec<String>), u32> = BTreeMap::new();
    for node in nodes {
        if let (Some(block), Some(rack)) = (domain(node, &outer.level), domain(node, &inner.level))
        {
            *room.entry((block, rack)).or_default() += count_fitting(gang, group, node, free);
        }
    }
    let slices = group.count / outer.pods;
    let inner_in_outer = outer.pods / inner.pods;
    place_slices(&mut room, (slices, inner_in_outer, inner.pods), None, 0)
}

fn place_slices(
    room: &mut BTreeMap<(Vec<String>, Vec<String>), u32>,
    (outer, inner, pods): (u32, u32, u32),
    block: Option<&Vec<String>>,
    placed: u32,
) -> bool {
    if placed == inner {
        return outer == 1 || place_slices(room, (outer - 1, inner, pods), None, 0);
    }
    let domains: Vec<_> = room.keys().cloned().collect();
    domains.iter().any(|rack| {
        if room[rack] < pods || block.is_some_and(|block| *block != rack.0) {
            return false;
        }
        *room.get_mut(rack).unwrap() -= pods;
        let fits = place_slices(room, (outer, inner, pods), Some(&rack.0), placed + 1);
        *room.get_mut(rack).unwrap() += pods;
        fits
    })
}

/// Returns the gang with each slice as a group of its own that must be in one domain.
fn with_slices_as_groups(gang: &Gang) -> Gang {
    let groups = gang.groups.iter().flat_map(|group| {
        let Some(layer) = group.slices.first() else {
            return vec![group.clone()];
        };
        let slices = 0..group.count / layer.pods;
        let slice = |_| TaskGroup {
            count: layer.pods,
            topology: Some(TopologyRequest::required(&layer.level)),
            slices: Vec::new(),
            ..group.clone()
        };
        slices.map(slice).collect()
    });
    Gang {
        groups: groups.collect(),
        ..gang.clone()
    }
}

fn any_group(at: usize) -> impl Strategy<Value = TaskGroup> {
    let slices = prop_oneof![Just(None), Just(Some("leaf")), Just(Some("pod"))];
    (0..3_u32, 1..4_u32, 0..3_i64, 0..3_i64, slices).prop_map(
        move |(slices, pods, cpu, gpu, level)| {
            let request = Resources::new().with("cpu", cpu).with(GPU, gpu);
            TaskGroup {
                slices: level
                    .map(|level| SliceLayer::new(level, pods))
                    .into_iter()
                    .collect(),
                ..group(&format!("g{at}"), slices * pods, request)
            }
        },
    )
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn gang_with_slices_is_placed_exactly_when_the_search_fits(
        (nodes, pods) in any_cluster(),
        groups in prop_oneof![
            any_group(0).prop_map(|a| vec![a]),
            (any_group(0), any_group(1)).prop_map(|(a, b)| vec![a, b]),
        ],
        whole in prop_oneof![
            3 => Just(None),
            1 => Just(Some(TopologyRequest::required("pod"))),
            1 => Just(Some(TopologyRequest::preferred("leaf"))),
            1 => Just(Some(TopologyRequest::required("zone"))),
        ],
        spread in any::<bool>(),
    ) {
        // Then `leaf` is a level of another topology than for the other requests.
        let is_zone = whole == Some(TopologyRequest::required("zone"));
        let mut layers = groups.iter().flat_map(|group| &group.slices);
        prop_assume!(!is_zone || layers.all(|layer| layer.level != "leaf"));
        // Slices must be finer than the required level.
        let is_pod = whole == Some(TopologyRequest::required("pod"));
        let mut layers = groups.iter().flat_map(|group| &group.slices);
        prop_assume!(!is_pod || layers.all(|layer| layer.level != "pod"));
        let strategy = if spread { PlacementStrategy::Spread } else { PlacementStrategy::Pack };
        let gang = Gang { topology: whole, strategy, ..gang("w", groups) };
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let free = all_free(&engine, &nodes);
        let answer = engine.try_gang(&gang, ms(0)).map(|o| o.placement);
        prop_assert_eq!(&all_free(&engine, &nodes), &free, "a trial leaves no trace");
        let fits = feasible(&with_slices_as_groups(&gang), &nodes, &free);
        match answer {
            Ok(placement) => {
                prop_assert!(fits);
                prop_assert_eq!(placement.pod_count(), gang.pod_count());
                check_slices(&gang, &nodes, &placement)?;
            }
            Err(explanation) => prop_assert!(!fits, "refused what fits: {explanation}"),
        }
    }

    #[test]
    fn group_with_two_layers_is_placed_exactly_when_the_search_fits(
        (nodes, pods) in any_cluster(),
        (outer, inner, size) in (1..3_u32, 1..3_u32, 1..4_u32),
        (cpu, gpu) in (0..3_i64, 0..3_i64),
    ) {
        let request = Resources::new().with("cpu", cpu).with(GPU, gpu);
        let mut worker = group("worker", outer * inner * size, request);
        worker.slices = vec![SliceLayer::new("pod", inner * size), SliceLayer::new("leaf", size)];
        let gang = gang("w", vec![worker]);
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        let free = all_free(&engine, &nodes);
        let fits = feasible_in_layers(&gang, &nodes, &free);
        match engine.try_gang(&gang, ms(0)).map(|o| o.placement) {
            Ok(placement) => {
                prop_assert!(fits);
                check_slices(&gang, &nodes, &placement)?;
            }
            Err(explanation) => prop_assert!(!fits, "refused what fits: {explanation}"),
        }
    }

    /// The engine counts whole slices while victims leave, and does not place the gang each time.
    #[test]
    fn preemption_for_slices_happens_exactly_when_it_helps_and_each_victim_is_needed(
        (nodes, _) in any_cluster(),
        requests in prop::collection::vec((1..4_i64, 0..2_i64), 1..7),
        worker in any_group(0),
        inner in any::<bool>(),
    ) {
        let mut engine = with_topologies(build_engine(nodes.iter(), &[]));
        engine.apply_queue(Queue { preemption: LOWER, ..queue("default", None) });
        let low = |(at, (cpu, gpu)): (usize, &(i64, i64))| {
            let request = Resources::new().with("cpu", *cpu).with(GPU, *gpu);
            workers(&format!("low-{at}"), 1, request)
        };
        let low: Vec<Gang> = requests.iter().enumerate().map(low).collect();
        for gang in &low {
            engine.apply_gang(gang.clone());
        }
        engine.cycle(ms(0));
        let running: Vec<&Gang> = low.iter().filter(|g| engine.placement(&g.id).is_some()).collect();
        let free = all_free(&engine, &nodes);
        let without = |leaving: &[&Gang], engine: &Engine| {
            let mut free = free.clone();
            for gang in leaving {
                let placement = engine.placement(&gang.id).unwrap();
                let (.., node) = placement.iter().next().unwrap();
                let room = free.get_mut(node).unwrap();
                for (resource, amount) in gang.groups[0].request.iter() {
                    *room.entry(resource.clone()).or_default() += amount;
                }
                *room.entry(ResourceName::new("pods")).or_default() += 1;
            }
            free
        };
        let mut worker = worker;
        if let (true, Some(outer)) = (inner, worker.slices.first().cloned())
            && outer.level == "pod"
        {
            worker.slices.push(SliceLayer::new("leaf", 1));
        }
        let high = Gang { priority: 9, ..gang("high", vec![worker]) };
        let as_groups = with_slices_as_groups(&high);
        let fits = |leaving: &[&Gang], engine: &Engine| {
            feasible(&as_groups, &nodes, &without(leaving, engine))
        };
        // Slices of one pod in a leaf need a label, which the groups do not express.
        prop_assume!(high.groups[0].slices.len() < 2 || nodes.iter().all(|n| domain(n, "leaf").is_some()));
        let (now, ever) = (fits(&[], &engine), fits(&running, &engine));
        engine.apply_gang(high.clone());
        let decisions = engine.cycle(ms(1));
        let decision = decisions.iter().find(|decision| match decision {
            Decision::Place { gang, .. } | Decision::Preempt { gang, .. } => *gang == high.id,
            _ => false,
        });
        match decision {
            Some(Decision::Place { placement, .. }) => {
                prop_assert!(now);
                check_slices(&high, &nodes, placement)?;
            }
            Some(Decision::Preempt { placement, victims, .. }) => {
                prop_assert!(!now && ever);
                check_slices(&high, &nodes, placement)?;
                let leaving = |but: Option<usize>| -> Vec<&Gang> {
                    let victims = victims.iter().enumerate().filter(|(at, _)| Some(*at) != but);
                    let gang = |id| low.iter().find(|gang| gang.id == id).unwrap();
                    victims.map(|(_, victim)| gang(victim.gang.clone())).collect()
                };
                prop_assert!(fits(&leaving(None), &engine));
                for at in 0..victims.len() {
                    prop_assert!(!fits(&leaving(Some(at)), &engine), "{victims:?}");
                }
            }
            _ => prop_assert!(!ever, "{decisions:?}"),
        }
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// Preferred slices are whole wherever required slices would be placed. They never keep a gang
    /// from a place.
    #[test]
    fn preferred_slices_are_whole_exactly_when_required_slices_fit(
        (nodes, pods) in any_cluster(),
        groups in prop_oneof![
            any_group(0).prop_map(|a| vec![a]),
            (any_group(0), any_group(1)).prop_map(|(a, b)| vec![a, b]),
        ],
    ) {
        let required = gang("w", groups);
        let with = |change: fn(&mut TaskGroup)| {
            let mut gang = required.clone();
            gang.groups.iter_mut().for_each(change);
            gang
        };
        let preferring = with(|group| group.prefers_slices = true);
        let free = with(|group| group.slices.clear());
        let placement = |gang: &Gang| {
            let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
            engine.try_gang(gang, ms(0)).ok().map(|placed| placed.placement)
        };
        let placed = placement(&preferring);
        prop_assert_eq!(placed.is_some(), placement(&free).is_some());
        if placement(&required).is_some() {
            check_slices(&required, &nodes, &placed.unwrap())?;
        }
    }
}
