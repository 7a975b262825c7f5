//! Generators of small random clusters and gangs.

use std::time::Duration;

use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Constraints, FairShareVictims, Gang, Node, NodeName, QueueName, Resources,
    Taint, TaintEffect, TaskGroup, Toleration, TolerationOperator, Topology, TopologyLevel,
    TopologyName, TopologyRequest,
};

use crate::common::{GPU, gang, group, ms, node};

pub const QUEUES: [&str; 2] = ["default", "other"];

pub fn any_fair_share() -> impl Strategy<Value = BorrowWithinPolicy> {
    prop_oneof![
        Just(FairShareVictims::LowerPriority),
        Just(FairShareVictims::LowerOrEqualPriority),
        Just(FairShareVictims::Any),
    ]
    .prop_map(BorrowWithinPolicy::FairShare)
}

pub fn node_name(at: usize) -> NodeName {
    NodeName::new(format!("n{at}"))
}

fn amounts(cpu: i64, gpu: i64, pods: i64) -> Resources {
    Resources::new()
        .with("cpu", cpu)
        .with(GPU, gpu)
        .with("pods", pods)
}

fn any_taint() -> impl Strategy<Value = Vec<Taint>> {
    let effect = prop_oneof![
        Just(TaintEffect::NoSchedule),
        Just(TaintEffect::PreferNoSchedule),
        Just(TaintEffect::NoExecute),
    ];
    let one = effect.prop_map(|effect| {
        vec![Taint {
            key: "t".into(),
            value: "v".into(),
            effect,
        }]
    });
    prop_oneof![4 => Just(vec![]), 1 => one]
}

/// Generates one of this many nodes.
pub fn any_node(nodes: usize) -> impl Strategy<Value = Node> {
    let shape = (0..8_i64, 0..5_i64, 0..7_i64);
    let state = (
        any_taint(),
        0..2_u8,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.1, Just("bad GPU condition GpuMemWatch".to_owned())),
    );
    (0..nodes, shape, state).prop_map(|(at, shape, (taints, zone, ready, cordon, unhealthy))| {
        let (cpu, gpu, pods) = shape;
        let mut node = node(node_name(at).as_str(), amounts(cpu, gpu, pods));
        node.labels.insert("zone".into(), zone.to_string());
        node.taints = taints;
        node.ready = ready;
        node.unschedulable = cordon;
        node.unhealthy = unhealthy;
        node
    })
}

pub fn any_request() -> impl Strategy<Value = Resources> {
    (0..4_i64, 0..3_i64).prop_map(|(cpu, gpu)| {
        let request = Resources::new().with("cpu", cpu);
        if gpu > 0 {
            request.with(GPU, gpu)
        } else {
            request
        }
    })
}

fn any_constraints() -> impl Strategy<Value = Constraints> {
    let zone = prop_oneof![3 => Just(None), 1 => (0..3_u8).prop_map(Some)];
    (zone, prop::bool::ANY).prop_map(|(zone, tolerates)| {
        let mut constraints = Constraints::default();
        if let Some(zone) = zone {
            constraints
                .node_selector
                .insert("zone".into(), zone.to_string());
        }
        if tolerates {
            constraints.tolerations.push(Toleration {
                key: Some("t".into()),
                operator: TolerationOperator::Equal,
                value: "v".into(),
                effect: None,
            });
        }
        constraints
    })
}

fn any_group(at: usize) -> impl Strategy<Value = TaskGroup> {
    (0..4_u32, any_request(), any_constraints()).prop_map(move |(count, request, constraints)| {
        TaskGroup {
            constraints,
            ..group(&format!("g{at}"), count, request)
        }
    })
}

/// Merges the first groups of a gang.
pub fn with_merged_groups(mut gang: Gang, count: usize) -> Gang {
    let first: Vec<TaskGroup> = gang.groups.drain(..count.min(gang.groups.len())).collect();
    gang.groups.splice(0..0, TaskGroup::merge(first));
    gang
}

/// Generates the runtime of a gang, if it is known.
pub fn any_runtime() -> impl Strategy<Value = Option<Duration>> {
    let some = (0..12_u64).prop_map(|ms| Some(Duration::from_millis(ms)));
    prop_oneof![1 => Just(None), 2 => some]
}

/// Generates a gang of this name with one to three groups.
pub fn any_gang(name: String, nodes: usize) -> impl Strategy<Value = Gang> {
    let groups = prop_oneof![
        any_group(0).prop_map(|a| vec![a]),
        (any_group(0), any_group(1)).prop_map(|(a, b)| vec![a, b]),
        (any_group(0), any_group(1), any_group(2)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let excluded = prop_oneof![4 => Just(vec![]), 1 => (0..nodes).prop_map(|n| vec![node_name(n)])];
    let stay = (any_runtime(), any_runtime(), 0..3_u64, prop::bool::ANY);
    (groups, 0..3_i32, 0..3_i64, excluded, 0..QUEUES.len(), stay).prop_map(
        move |(groups, priority, submitted, excluded_nodes, queue, stay)| Gang {
            runtime: stay.0,
            predicted: stay.1,
            grace: Duration::from_millis(stay.2),
            preemptible: stay.3,
            priority,
            submitted: ms(submitted),
            excluded_nodes,
            queue: QueueName::new(QUEUES[queue]),
            ..gang(&name, groups)
        },
    )
}

/// Returns two topologies: domains of blocks and racks, and of zones. Both have a level `leaf`, and
/// requests for it apply to the first topology. Only the level `zone` has the name of its label.
pub fn topologies() -> [Topology; 2] {
    let topology = |name: &str, levels: &[(&str, &str)]| Topology {
        name: TopologyName::new(name),
        levels: levels
            .iter()
            .map(|(name, label)| TopologyLevel {
                name: (*name).to_owned(),
                node_label: (*label).to_owned(),
            })
            .collect(),
    };
    [
        topology("hall", &[("pod", "block"), ("leaf", "rack")]),
        topology("zones", &[("zone", "zone"), ("leaf", "block")]),
    ]
}

/// Generates one of this many nodes, in a random domain of the topologies. Some nodes lack labels.
/// Racks of different blocks have the same names.
pub fn any_labelled_node(nodes: usize) -> impl Strategy<Value = Node> {
    let label = || prop_oneof![1 => Just(None), 8 => (0..2_u8).prop_map(Some)];
    (any_node(nodes), label(), label()).prop_map(|(mut node, block, rack)| {
        for (key, value) in [("block", block), ("rack", rack)] {
            if let Some(value) = value {
                node.labels.insert(key.into(), format!("{key}-{value}"));
            }
        }
        node
    })
}

fn any_topology_request() -> impl Strategy<Value = Option<TopologyRequest>> {
    let level = prop_oneof![Just("pod"), Just("leaf"), Just("zone")];
    let one = (level, any::<bool>()).prop_map(|(level, required)| match required {
        true => TopologyRequest::required(level),
        false => TopologyRequest::preferred(level),
    });
    let both = Just(TopologyRequest::required_and_preferred("pod", "leaf"));
    prop::option::of(prop_oneof![3 => one, 1 => both])
}

/// Generates a gang. The gang and its groups may have topology requests.
pub fn any_gang_with_topology(name: String, nodes: usize) -> impl Strategy<Value = Gang> {
    let asked = any_topology_request;
    (
        any_gang(name, nodes),
        asked(),
        prop::collection::vec(asked(), 3),
    )
        .prop_map(|(mut gang, topology, own)| {
            gang.topology = topology;
            for (group, own) in gang.groups.iter_mut().zip(own) {
                group.topology = own;
            }
            gang
        })
}
