//! Tests of the numbers for gangs that can never run, against a count of each node.

use std::collections::BTreeMap;

use crate::common::*;
use crate::oracle::allows;
use crate::random::{any_gang, any_node, node_name};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Gang, Node, NodeName, ResourceName, WaitDetail, WaitExplanation, WaitReason,
};

const NODES: usize = 5;

#[derive(Clone, Debug)]
enum Event {
    Apply(Node),
    Delete(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => any_node(NODES).prop_map(Event::Apply),
        1 => (0..NODES).prop_map(Event::Delete),
    ]
}

/// Generates a gang of one group, larger than most clusters. Some gangs request shares of a GPU.
fn any_large() -> impl Strategy<Value = Gang> {
    let share = prop::option::weighted(0.3, 1..1_200_i64);
    (any_gang("w".into(), NODES), 1..4_u32, share).prop_map(|(mut gang, times, share)| {
        gang.groups.truncate(1);
        for group in &mut gang.groups {
            group.count *= times;
            if let Some(share) = share {
                let gpu = ResourceName::new(GPU);
                group.request = cpu(0).with("cpu", group.request.get(&ResourceName::new("cpu")));
                group.request.set(ResourceName::share_of(&gpu), share);
            }
        }
        gang
    })
}

fn requested_amounts(gang: &Gang) -> BTreeMap<ResourceName, i64> {
    let request = gang.groups[0].request.iter().filter(|(_, n)| *n > 0);
    let request = request.map(|(r, n)| (r.clone(), n));
    request.chain([(ResourceName::new("pods"), 1)]).collect()
}

fn node_capacity(node: &Node, resource: &ResourceName) -> i64 {
    match resource.shared_device() {
        Some(device) => node.allocatable.get(&device) * 1_000,
        None => node.allocatable.get(resource),
    }
}

/// Returns how many pods an empty node holds.
fn pods_on_empty_node(gang: &Gang, node: &Node) -> i64 {
    let places = requested_amounts(gang).into_iter().map(|(resource, need)| {
        match resource.shared_device() {
            // A share belongs to one device.
            Some(device) => node.allocatable.get(&device) * (1_000 / need),
            None => node_capacity(node, &resource) / need,
        }
    });
    places.fold(i64::from(gang.groups[0].count), i64::min)
}

fn check(gang: &Gang, nodes: &[&Node], told: &WaitExplanation) -> Result<(), TestCaseError> {
    let group = &gang.groups[0];
    let allowed = || nodes.iter().filter(|node| allows(gang, group, node));
    let asked = requested_amounts(gang);
    let all = |node: &&&Node| asked.keys().all(|r| node_capacity(node, r) > 0);
    let matching: Vec<&&Node> = allowed().filter(all).collect();
    let count = i64::from(group.count);
    let fits: i64 = matching
        .iter()
        .map(|node| pods_on_empty_node(gang, node))
        .sum();
    let mute = allowed().filter(|n| n.allocatable.get(&ResourceName::new(GPU)) == 0);
    let mute = mute.count() * usize::from(asked.contains_key(GPU));
    let said = |silent: &Option<trellis_scheduler::UnadvertisedDevice>| {
        silent.as_ref().map_or(0, |s| s.nodes)
    };
    let resource_of = |name: &ResourceName| {
        let each = matching
            .iter()
            .map(|node| i128::from(node_capacity(node, name)));
        (i128::from(asked[name]), each.collect::<Vec<_>>())
    };
    match told.detail.as_ref() {
        WaitDetail::NoMatchingNodes { exclusions, .. } => {
            prop_assert!(matching.is_empty() && count > 0);
            prop_assert_eq!(exclusions.nodes as usize, nodes.len());
            prop_assert_eq!(said(&exclusions.unadvertised) as usize, mute);
        }
        WaitDetail::PodTooLarge {
            resource,
            needs,
            largest,
            nodes,
            unadvertised: silent,
            ..
        } => {
            prop_assert_eq!(*nodes as usize, matching.len());
            prop_assert_eq!(said(silent) as usize, mute);
            prop_assert_eq!(fits, 0);
            if let Some(resource) = resource {
                let (need, each) = resource_of(resource);
                prop_assert_eq!((*needs, Some(largest)), (need, each.iter().max()));
                prop_assert!(largest < needs);
            }
        }
        WaitDetail::ClusterTooSmall {
            resource,
            needs,
            capacity,
            nodes,
            unadvertised: silent,
            ..
        } => {
            let (need, each) = resource_of(resource);
            prop_assert_eq!(*nodes as usize, matching.len());
            prop_assert_eq!(said(silent) as usize, mute);
            prop_assert_eq!(*needs, need * i128::from(count));
            prop_assert_eq!(*capacity, each.iter().sum::<i128>());
            prop_assert!(capacity < needs);
        }
        WaitDetail::TooFewPlaces {
            pods,
            room,
            nodes,
            unadvertised: silent,
            ..
        } => {
            prop_assert_eq!(*nodes as usize, matching.len());
            prop_assert_eq!(said(silent) as usize, mute);
            prop_assert_eq!(i64::try_from(*pods).unwrap(), count);
            prop_assert_eq!(room.map(|room| i64::try_from(room).unwrap()), Some(fits));
            prop_assert!(fits < count);
        }
        WaitDetail::NodesAvoided { .. } => {
            let anywhere = Gang {
                excluded_nodes: vec![],
                ..gang.clone()
            };
            let all = nodes.iter().filter(|node| allows(&anywhere, group, node));
            let fits: i64 = all.map(|node| pods_on_empty_node(gang, node)).sum();
            prop_assert!(fits >= count);
        }
        _ => {
            prop_assert!(told.reason > WaitReason::ExceedsTopology, "{}", told);
            prop_assert!(fits >= count, "{}", told);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn capacity_of_empty_nodes_matches_a_recount_after_node_events(
        events in prop::collection::vec(any_event(), 1..12),
        gang in any_large(),
        held in prop::collection::vec((0..NODES, 1..4_i64), 0..3),
    ) {
        let mut engine = Engine::new();
        engine.apply_queue(queue("default", None));
        engine.apply_queue(queue("other", None));
        for (i, (at, cores)) in held.into_iter().enumerate() {
            apply_pod(&mut engine, &format!("x/{i}"), node_name(at).as_str(), cpu(0).with("cpu", cores));
        }
        let mut nodes: BTreeMap<NodeName, Node> = BTreeMap::new();
        for event in events {
            match event {
                Event::Apply(node) => {
                    engine.apply_node(node.clone());
                    nodes.insert(node.name.clone(), node);
                }
                Event::Delete(at) => {
                    engine.delete_node(&node_name(at));
                    nodes.remove(&node_name(at));
                }
            }
            let there: Vec<&Node> = nodes.values().collect();
            if let Err(told) = engine.try_gang(&gang, ms(0)) {
                check(&gang, &there, &told)?;
            }
        }
    }
}
