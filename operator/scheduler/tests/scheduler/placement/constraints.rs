//! Constraints on the nodes of a gang: affinity, taints, cordons, volumes and node health.

use crate::common::*;
use trellis_scheduler::{
    Constraints, LabelDomain, NodeName, NodeSelectorOperator, NodeSelectorRequirement,
    NodeSelectorTerm, PreferredSchedulingTerm, TaintEffect, Toleration, TolerationOperator,
    WaitReason,
};

#[test]
fn preferred_affinity_comes_before_packing() {
    let mut engine = engine([
        label(gpu_node("far", 8), "zone", "b"),
        label(gpu_node("near", 8), "zone", "a"),
    ]);
    apply_pod(&mut engine, "x/a", "far", gpu(1, 6));
    let mut gang = workers("w", 1, gpu(1, 2));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: far*1");
    gang.groups[0].constraints.preferred = vec![PreferredSchedulingTerm {
        weight: 1,
        term: NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: "zone".into(),
                operator: NodeSelectorOperator::In,
                values: vec!["a".into()],
            }],
            match_fields: vec![],
        },
    }];
    assert_eq!(trial_placement(&mut engine, &gang), "worker: near*1");
    gang.groups[0].count = 5;
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "worker: far*1 near*4",
        "what does not fit goes elsewhere"
    );
}

#[test]
fn prefer_no_schedule_taint_is_avoided_while_other_nodes_have_room() {
    let mut engine = engine([
        taint(gpu_node("a", 8), "spot", TaintEffect::PreferNoSchedule),
        gpu_node("b", 8),
    ]);
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 8))),
        "worker: b*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 2, gpu(1, 8))),
        "worker: a*1 b*1"
    );
}

#[test]
fn constraints_taints_and_exclusions_keep_pods_off_nodes() {
    let mut engine = engine([
        label(gpu_node("labelled", 8), "pool", "train"),
        taint(gpu_node("tainted", 8), "dedicated", TaintEffect::NoExecute),
        gpu_node("plain", 8),
    ]);
    let mut gang = workers("w", 1, gpu(1, 8));
    gang.groups[0]
        .constraints
        .node_selector
        .insert("pool".into(), "train".into());
    assert_eq!(trial_placement(&mut engine, &gang), "worker: labelled*1");

    gang.groups[0].constraints = Constraints {
        tolerations: vec![Toleration {
            key: Some("dedicated".into()),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        }],
        ..Constraints::default()
    };
    gang.groups[0].count = 3;
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "worker: labelled*1 plain*1 tainted*1"
    );

    gang.groups[0].count = 2;
    gang.excluded_nodes = vec![NodeName::new("plain")];
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "worker: labelled*1 tainted*1"
    );
}

#[test]
fn changed_node_is_checked_again() {
    let mut engine = engine([gpu_node("a", 8), gpu_node("b", 8)]);
    let gang = workers("w", 1, gpu(1, 8));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a*1");
    let mut a = gpu_node("a", 8);
    a.ready = false;
    engine.apply_node(a.clone());
    assert_eq!(trial_placement(&mut engine, &gang), "worker: b*1");
    a.ready = true;
    a.unschedulable = true;
    engine.apply_node(a.clone());
    assert_eq!(trial_placement(&mut engine, &gang), "worker: b*1");
    a.unschedulable = false;
    engine.apply_node(a);
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a*1");
    engine.delete_node(&NodeName::new("a"));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: b*1");
}

#[test]
fn unhealthy_node_gets_no_pod_and_keeps_its_pods() {
    let mut engine = engine([gpu_node("a", 8)]);
    engine.apply_gang(workers("w", 1, gpu(1, 4)));
    assert_eq!(engine.cycle(ms(0)).len(), 1);
    let mut a = gpu_node("a", 8);
    a.unhealthy = Some("bad GPU condition GpuMemWatch".to_owned());
    engine.apply_node(a.clone());
    let mut next = workers("next", 1, gpu(1, 4));
    next.groups[0].constraints.tolerations = vec![Toleration {
        key: None,
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
    }];
    assert_eq!(
        trial_explanation(&mut engine, &next).to_string(),
        "none of 1 node matches: 1 with bad GPU condition GpuMemWatch"
    );
    assert_eq!(engine.placed_gang_count(), 1);
    a.unhealthy = None;
    engine.apply_node(a);
    assert_eq!(trial_placement(&mut engine, &next), "worker: a*1");
}

#[test]
fn volumes_and_anti_affinity_restrict_nodes() {
    let zone = |name: &str, zone: &str| label(gpu_node(name, 8), "zone", zone);
    let mut engine = engine([zone("a", "x"), zone("b", "y"), zone("c", "y")]);
    let mut gang = workers("w", 2, gpu(1, 8));
    let term = NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: "zone".into(),
            operator: NodeSelectorOperator::In,
            values: vec!["y".into()],
        }],
        ..NodeSelectorTerm::default()
    };
    gang.groups[0].constraints.volumes = vec![vec![term]];
    assert_eq!(trial_placement(&mut engine, &gang), "worker: b*1 c*1");
    gang.groups[0].constraints.volumes.clear();
    gang.groups[0].constraints.kept_out = [LabelDomain {
        label: "zone".into(),
        value: "y".into(),
    }]
    .into();
    gang.groups[0].count = 1;
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a*1");
    gang.groups[0].count = 2;
    assert_eq!(
        trial_explanation(&mut engine, &gang).reason,
        WaitReason::ExceedsCluster
    );
}

#[test]
fn a_cordon_is_a_taint_that_can_be_tolerated() {
    let mut cordoned = gpu_node("a", 8);
    cordoned.unschedulable = true;
    let mut engine = engine([cordoned]);
    let mut gang = workers("w", 1, gpu(1, 8));
    assert_eq!(
        trial_explanation(&mut engine, &gang).reason,
        WaitReason::NoMatchingNodes
    );
    gang.groups[0].constraints.tolerations = vec![Toleration {
        key: Some("node.kubernetes.io/unschedulable".into()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: Some(TaintEffect::NoSchedule),
    }];
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a*1");
}
