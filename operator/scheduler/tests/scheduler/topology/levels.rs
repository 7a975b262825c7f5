//! Tests of levels of topologies, and of nodes that lack the label of a level.

use crate::common::*;
use crate::topology::{hall_engine, topology, whole_node_gang};
use trellis_scheduler::{TopologyName, TopologyRequest};

#[test]
fn racks_with_the_same_label_differ_between_blocks() {
    let mut engine = hall_engine(["a1-0", "b1-0"]);
    assert_eq!(
        trial_explanation(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("rack")))
        )
        .reason
        .as_str(),
        "ExceedsTopology"
    );
}

#[test]
fn nodes_without_the_label_are_used_last() {
    let mut engine = hall_engine(["b1-0", "b1-1"]);
    engine.apply_node(gpu_node("a0", 8));
    engine.apply_node(label(gpu_node("a1", 8), "rack", "1"));
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("rack")))
        ),
        "worker: b1-0*1 b1-1*1"
    );
    assert_eq!(
        trial_explanation(
            &mut engine,
            &whole_node_gang(3, Some(TopologyRequest::required("rack")))
        )
        .reason
        .as_str(),
        "ExceedsTopology",
        "a1 has no block, so its rack is none"
    );
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(3, Some(TopologyRequest::preferred("rack")))
        ),
        "worker: b1-0*1 b1-1*1 a0*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(4, None)),
        "worker: a0*1 a1*1 b1-0*1 b1-1*1"
    );
}

#[test]
fn node_with_only_the_coarse_label_serves_coarse_requests() {
    let mut engine = hall_engine(["a1-0"]);
    engine.apply_node(label(gpu_node("a-x", 8), "block", "a"));
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("block")))
        ),
        "worker: a1-0*1 a-x*1"
    );
    assert_eq!(
        trial_explanation(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("rack")))
        )
        .reason
        .as_str(),
        "ExceedsTopology"
    );
}

#[test]
fn first_topology_by_name_with_the_level_is_used() {
    let mut engine = hall_engine(["a1-0", "b1-0"]);
    // Racks without blocks: both nodes are in rack 1.
    engine.apply_topology(topology("flat", &["rack"]));
    let gang = whole_node_gang(2, Some(TopologyRequest::required("rack")));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a1-0*1 b1-0*1");
    engine.delete_topology(&TopologyName::new("flat"));
    assert_eq!(
        trial_explanation(&mut engine, &gang).reason.as_str(),
        "ExceedsTopology"
    );
}

#[test]
fn topology_without_levels_or_with_duplicate_levels_is_accepted() {
    let mut engine = hall_engine(["a1-0", "a1-1"]);
    engine.apply_topology(topology("a-none", &[]));
    engine.apply_topology(topology("a-twice", &["block", "block"]));
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("block")))
        ),
        "worker: a1-0*1 a1-1*1"
    );
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::required("rack")))
        ),
        "worker: a1-0*1 a1-1*1"
    );
}
