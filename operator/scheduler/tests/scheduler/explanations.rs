//! Tests of the exact sentences that users read while a gang is pending.

pub(super) mod change;
pub(super) mod oracle;
pub(super) mod quota;

use crate::common::*;
use trellis_scheduler::{
    LabelDomain, Node, NodeName, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    QueueName, QueueStop, ResourceName, Resources, TaintEffect, WaitDetail, WaitReason,
};

fn explain_gang(engine: &mut trellis_scheduler::Engine, gang: &trellis_scheduler::Gang) -> String {
    let explanation = trial_explanation(engine, gang);
    format!("{}: {explanation}", explanation.reason)
}

#[test]
fn queue_is_missing_or_stopped() {
    let mut engine = engine(gpu_nodes(1));
    let mut gang = workers("w", 1, gpu(1, 1));
    gang.queue = QueueName::new("nope");
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "QueueNotFound: queue \"nope\" does not exist"
    );
    let mut held = queue("nope", None);
    held.stop = QueueStop::Hold;
    engine.apply_queue(held);
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "QueueStopped: queue \"nope\" is stopped: nothing of it is started"
    );
}

#[test]
fn gang_is_backing_off() {
    let mut engine = engine(gpu_nodes(1));
    let mut gang = workers("w", 1, gpu(1, 1));
    gang.not_before = Some(ms(90_000));
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "BackingOff: the last try to start it failed; the next is not before 1970-01-01T00:01:30Z"
    );
}

#[test]
fn quota_can_never_suffice() {
    let mut engine = engine(gpu_nodes(9));
    engine.apply_queue(queue("default", Some(&[("cpu", 96_000), (GPU, 32)])));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 8, gpu(1, 8))),
        "ExceedsQuota: needs 64 nvidia.com/gpu, the whole quota of queue \"default\" is 32"
    );
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, gpu(1, 1).with("memory", GI))),
        "ExceedsQuota: needs 1Gi memory, which queue \"default\" does not offer \
         (it offers cpu, nvidia.com/gpu)"
    );
    engine.apply_queue(queue("default", Some(&[])));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, cpu(1))),
        "ExceedsQuota: needs 1 cpu, which queue \"default\" does not offer (it offers nothing)"
    );
}

/// Gangs that hold quota now will end, so the quota that they hold is not missing for ever.
#[test]
fn change_for_impossible_quota_ignores_current_usage() {
    let mut engine = engine(gpu_nodes(50));
    let mut research = queue("research", Some(&[("cpu", 960_000), (GPU, 96)]));
    engine.apply_queue(research.clone());
    research = queue("vision", Some(&[("cpu", 0), (GPU, 0)]));
    research.parent = Some(QueueName::new("research"));
    engine.apply_queue(research);
    let of_vision = |name: &str, pods: u32| {
        let mut gang = workers(name, pods, gpu(1, 8));
        gang.queue = QueueName::new("vision");
        gang
    };
    engine.apply_gang(of_vision("holds", 9));
    assert_eq!(cycle(&mut engine), ["+holds"]);
    let told = trial_explanation(&mut engine, &of_vision("w", 40));
    assert_eq!(
        told.to_string(),
        "needs 320 nvidia.com/gpu, the whole quota of queue \"vision\" is 96; it would fit with \
         224 more nvidia.com/gpu in the quota of queue \"research\""
    );
}

#[test]
fn pods_need_no_quota_unless_the_queue_limits_pods() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue("default", Some(&[("cpu", 96_000)])));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 3, cpu(1))),
        "worker: n00*3"
    );
    engine.apply_queue(queue("default", Some(&[("cpu", 96_000), ("pods", 2)])));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 3, cpu(1))),
        "ExceedsQuota: needs 3 pods, the whole quota of queue \"default\" is 2"
    );
}

#[test]
fn other_gangs_hold_the_quota() {
    let mut engine = engine(gpu_nodes(9));
    engine.apply_queue(queue("default", Some(&[("cpu", 960_000), (GPU, 32)])));
    for (name, pods) in [("a", 1), ("b", 2)] {
        engine.apply_gang(workers(name, pods, gpu(1, 8)));
    }
    assert_eq!(cycle(&mut engine), ["+a", "+b"]);
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 2, gpu(1, 8))),
        "QuotaExceeded: needs 16 nvidia.com/gpu, 24 of 32 are held in queue \"default\": \
         8 are missing; held by 2 gangs (\"team/b\" 16, \"team/a\" 8)"
    );
    for name in ["c", "d"] {
        engine.apply_gang(workers(name, 1, gpu(1, 4)));
    }
    assert_eq!(cycle(&mut engine), ["+c", "+d"]);
    let explanation = trial_explanation(&mut engine, &workers("w", 1, gpu(1, 1))).to_string();
    assert!(
        explanation.ends_with("held by 4 gangs (\"team/b\" 16, \"team/a\" 8, \"team/c\" 4, ...)"),
        "{explanation}"
    );
}

#[test]
fn no_node_matches() {
    let mut engine = engine([]);
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, gpu(1, 1))),
        "NoMatchingNodes: there are no nodes"
    );
    let mut not_ready = gpu_node("n0", 8);
    not_ready.ready = false;
    engine.apply_node(not_ready);
    let mut cordoned = gpu_node("n1", 8);
    cordoned.unschedulable = true;
    engine.apply_node(cordoned);
    engine.apply_node(gpu_node("n2", 8));
    engine.apply_node(gpu_node("n3", 8));
    let pool = |n| label(n, "pool", "train");
    let zone = |n| label(pool(n), "zone", "a");
    engine.apply_node(pool(gpu_node("n4", 8)));
    engine.apply_node(taint(
        zone(gpu_node("n5", 8)),
        "dedicated",
        TaintEffect::NoSchedule,
    ));
    engine.apply_node(zone(cpu_node("n6")));
    let unhealthy = |name: &str, why: &str| Node {
        // The healer has cordoned the node too, but the engine reports the reason.
        unschedulable: true,
        unhealthy: Some(why.to_owned()),
        ..gpu_node(name, 8)
    };
    engine.apply_node(unhealthy("n7", "bad GPU condition GpuMemWatch"));
    let taint_of = "taint \"node.kubernetes.io/out-of-service\"";
    engine.apply_node(unhealthy("n8", taint_of));
    let disk = |n, value| label(zone(n), "disk", value);
    engine.apply_node(disk(gpu_node("n9", 8), "other"));
    engine.apply_node(label(disk(gpu_node("n10", 8), "mine"), "rack", "r1"));
    let mut gang = workers("w", 1, gpu(1, 1));
    let volume = NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: "disk".into(),
            operator: NodeSelectorOperator::NotIn,
            values: vec!["other".into()],
        }],
        ..NodeSelectorTerm::default()
    };
    gang.groups[0].constraints.volumes = vec![vec![volume]];
    gang.groups[0].constraints.kept_out = [LabelDomain {
        label: "rack".into(),
        value: "r1".into(),
    }]
    .into();
    gang.excluded_nodes = vec![NodeName::new("n2")];
    let constraints = &mut gang.groups[0].constraints;
    constraints
        .node_selector
        .insert("pool".into(), "train".into());
    constraints.required = vec![NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: "zone".into(),
            operator: NodeSelectorOperator::Exists,
            values: vec![],
        }],
        match_fields: vec![],
    }];
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "NoMatchingNodes: none of 11 nodes matches: 1 not ready, \
         1 with bad GPU condition GpuMemWatch, 1 with taint \"node.kubernetes.io/out-of-service\", \
         1 cordoned, 1 left out after a failure there, 1 without label \"pool=train\", \
         1 not allowed by node affinity, 1 with taint \"dedicated:NoSchedule\", which is not \
         tolerated, 1 out of reach of a mounted volume, \
         1 where anti-affinity of other pods keeps it out, 1 without nvidia.com/gpu"
    );
}

/// The node had no device before and still has none, but an entry with 0 changes the explanation.
#[test]
fn newly_listed_device_changes_the_explanation() {
    let mut engine = engine([cpu_node("n0")]);
    let gang = workers("w", 1, gpu(1, 1));
    engine.apply_gang(gang.clone());
    cycle(&mut engine);
    let mut lists_zero = cpu_node("n0");
    lists_zero.allocatable.set(ResourceName::new(GPU), 0);
    engine.apply_node(lists_zero.clone());
    cycle(&mut engine);
    let told = engine.explanation(&gang.id).unwrap().to_string();
    let mut anew = crate::common::engine([lists_zero]);
    assert_eq!(told, trial_explanation(&mut anew, &gang).to_string());
    assert!(told.contains("device plugin"), "{told}");
}

#[test]
fn node_advertises_none_of_its_devices() {
    let lists_zero = gpu_node("n0", 0);
    let labelled = label(cpu_node("n1"), "nvidia.com/gpu.product", "H100");
    let tainted = taint(cpu_node("n2"), GPU, TaintEffect::PreferNoSchedule);
    let cloud = label(
        cpu_node("n3"),
        "cloud.google.com/gke-accelerator",
        "nvidia-h100",
    );
    let denies = label(cpu_node("n4"), "nvidia.com/gpu.present", "false");
    let mut engine = engine([lists_zero, labelled, tainted, cloud, denies]);
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, gpu(1, 8))),
        "NoMatchingNodes: none of 5 nodes matches: 5 without nvidia.com/gpu; 4 of those look as if \
         with nvidia.com/gpu but advertise none: look at the device plugin there"
    );
    engine.apply_node(gpu_node("n5", 8));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 2, gpu(1, 8))),
        "ExceedsCluster: needs 16 nvidia.com/gpu; 1 matching node has 8 even when empty; \
         4 more nodes look as if with nvidia.com/gpu but advertise none: look at the device plugin there; \
         5 of 6 nodes do not match: 5 without nvidia.com/gpu"
    );
}

#[test]
fn gang_never_fits() {
    let mut engine = engine(gpu_nodes(13));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, gpu(1, 16))),
        "ExceedsCluster: needs 16 nvidia.com/gpu on one node; the largest of 13 matching nodes has 8"
    );
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 14, gpu(1, 8))),
        "ExceedsCluster: needs 112 nvidia.com/gpu; 13 matching nodes have 104 even when empty"
    );
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 14, gpu(1, 5))),
        "ExceedsCluster: 13 matching nodes have room for 13 of 14 pods even when empty"
    );
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, cpu(97).with("memory", GI))),
        "ExceedsCluster: needs 97 cpu on one node; the largest of 13 matching nodes has 96"
    );
    engine.apply_node(node("fat", cpu(1_000).with("memory", GI).with("pods", 9)));
    assert_eq!(
        explain_gang(
            &mut engine,
            &workers("w", 1, cpu(97).with("memory", 2 * GI))
        ),
        "ExceedsCluster: none of 14 matching nodes has all that one pod needs, even when empty"
    );
}

#[test]
fn groups_never_fit_together() {
    let mut engine = engine(gpu_nodes(2));
    let both = gang(
        "g",
        vec![group("a", 2, gpu(1, 5)), group("b", 2, gpu(1, 4))],
    );
    assert_eq!(
        explain_gang(&mut engine, &both),
        "ExceedsCluster: needs 18 nvidia.com/gpu; 2 matching nodes have 16 even when empty"
    );
    let both = gang(
        "g",
        vec![group("a", 2, gpu(1, 5)), group("b", 1, gpu(1, 4))],
    );
    assert_eq!(
        explain_gang(&mut engine, &both),
        "ExceedsCluster: each task group would fit alone, but 2 matching nodes do not hold all \
         3 pods together even when empty"
    );
    let one = gang(
        "g",
        vec![group("a", 2, gpu(1, 5)), group("b", 1, gpu(1, 9))],
    );
    assert_eq!(
        explain_gang(&mut engine, &one),
        "ExceedsCluster: group \"b\": needs 9 nvidia.com/gpu on one node; the largest of \
         2 matching nodes has 8"
    );
}

#[test]
fn too_little_capacity_is_free() {
    let mut engine = engine(gpu_nodes(13));
    engine.apply_gang(workers("a", 15, gpu(1, 4)));
    cycle(&mut engine);
    apply_pod(&mut engine, "x/a", "n12", gpu(1, 8));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 8, gpu(1, 8))),
        "InsufficientCapacity: needs 64 nvidia.com/gpu, 36 are free on 13 matching nodes: \
         28 are missing; gangs hold 60, other pods 8"
    );
    apply_pod(
        &mut engine,
        "x/b",
        "n11",
        Resources::new().with("memory", 900 * GI),
    );
    assert_eq!(
        explain_gang(
            &mut engine,
            &workers("w", 13, Resources::new().with("memory", 950 * GI))
        ),
        "InsufficientCapacity: needs 12350Gi memory, 12100Gi are free on 13 matching nodes: \
         250Gi are missing; gangs hold 0, other pods 900Gi; it would fit with \
         850Gi memory more free on \"n11\""
    );
}

#[test]
fn enough_capacity_is_free_but_scattered() {
    let mut engine = engine(gpu_nodes(8));
    for i in 0..8 {
        apply_pod(&mut engine, &format!("x/{i}"), &format!("n0{i}"), gpu(1, 7));
    }
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 1, gpu(1, 8))),
        "Fragmented: needs 8 nvidia.com/gpu on one node; 8 are free on 8 nodes, at most 1 on one; \
         it would fit with 7 nvidia.com/gpu more free on \"n00\""
    );
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 4, gpu(1, 2))),
        "Fragmented: 4 pods need 2 nvidia.com/gpu each; 8 are free on 8 nodes, at most 1 on one: \
         room for 0; it would fit with 1 nvidia.com/gpu more free on each of \"n00\", \"n01\", \
         \"n02\" and 1 node more"
    );
}

#[test]
fn resources_are_free_on_different_nodes() {
    let mut engine = engine(gpu_nodes(2));
    apply_pod(&mut engine, "x/a", "n00", cpu(95));
    apply_pod(&mut engine, "x/b", "n01", gpu(1, 8));
    assert_eq!(
        explain_gang(&mut engine, &workers("w", 2, gpu(2, 4))),
        "Fragmented: 2 pods need 4 nvidia.com/gpu each, free on 1 node, of which 1 has too little \
         cpu: room for 0; it would fit with 3 cpu more free on \"n00\""
    );
}

#[test]
fn groups_fit_alone_but_not_together_now() {
    let mut engine = engine(gpu_nodes(3));
    let both = gang(
        "g",
        vec![group("a", 2, gpu(1, 5)), group("b", 1, gpu(1, 4))],
    );
    assert_eq!(
        trial_placement(&mut engine, &both),
        "a: n00*1 n01*1, b: n02*1"
    );
    apply_pod(&mut engine, "x/a", "n02", gpu(1, 5));
    assert_eq!(
        explain_gang(&mut engine, &both),
        "Fragmented: each task group fits alone, but 3 matching nodes have no room for all \
         3 pods together; it would fit with 1 nvidia.com/gpu more free on \"n02\""
    );
}

#[test]
fn explanation_has_typed_numbers() {
    let mut engine = engine(gpu_nodes(1));
    let explanation = trial_explanation(&mut engine, &workers("w", 1, gpu(1, 9)));
    assert_eq!(explanation.reason, WaitReason::ExceedsCluster);
    let WaitDetail::PodTooLarge {
        needs,
        largest,
        nodes,
        ..
    } = *explanation.detail
    else {
        panic!("{explanation:?}");
    };
    assert_eq!((needs, largest, nodes), (9, 8, 1));
}

#[test]
fn request_that_overflows_is_refused() {
    let mut engine = engine(gpu_nodes(2));
    let huge = Resources::new().with("cpu", i64::MAX);
    let explanation = trial_explanation(&mut engine, &workers("w", 4_096, huge));
    assert_eq!(explanation.reason, WaitReason::ExceedsCluster);
    engine.apply_queue(queue("default", Some(&[("cpu", i64::MAX)])));
    let huge = Resources::new().with("cpu", i64::MAX);
    let explanation = trial_explanation(&mut engine, &workers("w", 4_096, huge));
    assert_eq!(explanation.reason, WaitReason::ExceedsQuota);
}

#[test]
fn excluded_nodes_are_the_reason_instead_of_the_cluster_size() {
    let mut engine = engine(gpu_nodes(2));
    let mut gang = workers("w", 2, gpu(1, 8));
    gang.excluded_nodes = vec![NodeName::new("n01")];
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "NodesAvoided: 1 node is left out for a while after a failure there, and the others do \
         not suffice"
    );
    // A gang that would not fit with those nodes either is too large.
    gang.groups[0].count = 3;
    assert!(explain_gang(&mut engine, &gang).starts_with("ExceedsCluster"));
}
