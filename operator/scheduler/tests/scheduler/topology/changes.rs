//! Tests of changes of nodes, topologies and usage while gangs with topology requests wait or run.

use crate::common::*;
use crate::topology::{
    hall_engine, hall_node, requiring_one_rack, topology, use_gpus, whole_node_gang,
};
use trellis_scheduler::{NodeName, PodKey, TopologyName, TopologyRequest};

#[test]
fn deleted_topology_blocks_pending_gangs_only() {
    let mut engine = hall_engine(["a1-0", "a1-1"]);
    let gang = |name: &str| requiring_one_rack(workers(name, 1, gpu(8, 8)));
    engine.apply_gang(gang("runs"));
    assert_eq!(cycle(&mut engine), ["+runs"]);
    engine.delete_topology(&TopologyName::new("hall"));
    engine.apply_gang(gang("waits"));
    assert_eq!(cycle(&mut engine), ["-waits TopologyNotFound"]);
    assert_eq!(
        format_placement(&engine.placement(&id("runs")).unwrap()),
        "worker: a1-0*1"
    );
    engine.apply_topology(topology("other", &["rack"]));
    assert_eq!(cycle(&mut engine), ["+waits"]);
}

#[test]
fn node_that_moves_or_goes_counts_in_its_current_domain() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0"]);
    let rack = |name: &str, count| requiring_one_rack(workers(name, count, gpu(8, 8)));
    engine.apply_gang(rack("runs", 2));
    assert_eq!(cycle(&mut engine), ["+runs"]);
    engine.apply_gang(rack("waits", 2));
    assert_eq!(cycle(&mut engine), ["-waits InsufficientCapacity"]);
    // One of its nodes moves to the other rack. The gang keeps its nodes.
    engine.apply_node(label(hall_node("a1-1"), "rack", "2"));
    assert!(cycle(&mut engine).is_empty());
    engine.apply_gang(rack("next", 2));
    engine.delete_gang(&id("runs"));
    assert_eq!(cycle(&mut engine), ["+next"]);
    assert_eq!(
        format_placement(&engine.placement(&id("next")).unwrap()),
        "worker: a1-1*1 a2-0*1"
    );
    engine.delete_node(&NodeName::new("a2-0"));
    engine.delete_gang(&id("next"));
    assert_eq!(cycle(&mut engine), ["-waits ExceedsTopology"]);
    engine.apply_node(hall_node("a1-1"));
    assert_eq!(cycle(&mut engine), ["+waits"]);
}

#[test]
fn gang_waiting_for_a_domain_wakes_when_one_may_hold_it() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1"]);
    use_gpus(&mut engine, "a1-0", 1);
    use_gpus(&mut engine, "a2-0", 1);
    engine.apply_gang(whole_node_gang(2, Some(TopologyRequest::required("rack"))));
    assert_eq!(cycle(&mut engine), ["-w TopologyFragmented"]);
    engine.delete_pod(&PodKey::new("x/a2-0"));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn gang_wakes_on_any_resource_missing_in_some_rack() {
    for freed in ["x/gpus", "x/cores"] {
        let mut engine = hall_engine(["a1-0", "a2-0"]);
        apply_pod(&mut engine, "x/gpus", "a1-0", gpu(1, 8));
        apply_pod(&mut engine, "x/cores", "a2-0", cpu(90));
        engine.apply_gang(whole_node_gang(1, Some(TopologyRequest::required("rack"))));
        assert_eq!(cycle(&mut engine), ["-w TopologyFragmented"]);
        engine.delete_pod(&PodKey::new(freed));
        assert_eq!(cycle(&mut engine), ["+w"]);
    }
}

#[test]
fn reason_changes_from_fragmentation_to_capacity_when_free_capacity_shrinks() {
    let mut engine = hall_engine(["a1-0", "a2-0", "a2-1"]);
    use_gpus(&mut engine, "a2-0", 1);
    engine.apply_gang(whole_node_gang(2, Some(TopologyRequest::required("rack"))));
    assert_eq!(cycle(&mut engine), ["-w TopologyFragmented"]);
    use_gpus(&mut engine, "a1-0", 8);
    assert_eq!(cycle(&mut engine), ["-w InsufficientCapacity"]);
}

#[test]
fn changed_topology_level_is_used() {
    let mut engine = hall_engine(["a1-0", "a1-1", "b1-0"]);
    let gang = whole_node_gang(3, Some(TopologyRequest::required("rack")));
    assert_eq!(
        trial_explanation(&mut engine, &gang).reason.as_str(),
        "ExceedsTopology"
    );
    engine.apply_topology(topology("hall", &["rack"]));
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "worker: a1-0*1 a1-1*1 b1-0*1"
    );
}
