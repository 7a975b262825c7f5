//! Small random clusters and gangs.

use proptest::prelude::*;
use trellis_scheduler::{
    Constraints, Gang, Node, NodeName, QueueName, Resources, Taint, TaintEffect, TaskGroup,
    Toleration, TolerationOperator,
};

use crate::common::{GPU, gang, group, ms, node};

pub const QUEUES: [&str; 2] = ["default", "other"];

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

/// One of so many nodes.
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

/// A gang of that name with one to three groups.
pub fn any_gang(name: String, nodes: usize) -> impl Strategy<Value = Gang> {
    let groups = prop_oneof![
        any_group(0).prop_map(|a| vec![a]),
        (any_group(0), any_group(1)).prop_map(|(a, b)| vec![a, b]),
        (any_group(0), any_group(1), any_group(2)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let excluded = prop_oneof![4 => Just(vec![]), 1 => (0..nodes).prop_map(|n| vec![node_name(n)])];
    (groups, 0..3_i32, 0..3_i64, excluded, 0..QUEUES.len()).prop_map(
        move |(groups, priority, submitted, excluded_nodes, queue)| Gang {
            priority,
            submitted: ms(submitted),
            excluded_nodes,
            queue: QueueName::new(QUEUES[queue]),
            ..gang(&name, groups)
        },
    )
}
