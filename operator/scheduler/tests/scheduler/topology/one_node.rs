//! Tests of gangs that must be on one node.

use crate::common::*;
use trellis_scheduler::{Gang, TopologyRequest};

/// Returns a gang that requests a level that no topology has.
fn gang_requiring_a_row() -> Gang {
    Gang {
        topology: Some(TopologyRequest::required("row")),
        ..workers("w", 1, gpu(1, 1))
    }
}

/// Packing would use the rest of two nodes, and leave the third whole.
#[test]
fn one_node_request_uses_one_node_without_a_topology() {
    let on_one = |pods: u32, gpus: i64| Gang {
        topology: Some(TopologyRequest::one_node()),
        ..workers("w", pods, gpu(1, gpus))
    };
    let mut engine = engine(gpu_nodes(3));
    for node in ["n00", "n01"] {
        apply_pod(&mut engine, &format!("x/{node}"), node, gpu(1, 5));
    }
    let anywhere = workers("w", 2, gpu(1, 3));
    assert_eq!(
        trial_placement(&mut engine, &anywhere),
        "worker: n00*1 n01*1"
    );
    assert_eq!(trial_placement(&mut engine, &on_one(2, 3)), "worker: n02*2");
    // A node that is added later is a domain as well.
    apply_pod(&mut engine, "x/n02-too", "n02", gpu(1, 8));
    engine.apply_node(gpu_node("n03", 8));
    assert_eq!(trial_placement(&mut engine, &on_one(2, 4)), "worker: n03*2");
    let refused = trial_explanation(&mut engine, &on_one(3, 4));
    assert_eq!(
        format!("{}: {refused}", refused.reason),
        "ExceedsTopology: 3 pods must be on one node; \"n00\", the largest of 4, has room for 2 even when empty"
    );
    // The node level is not the name of a label level.
    let wrong = trial_explanation(&mut engine, &gang_requiring_a_row());
    assert!(wrong.to_string().ends_with("(there is none)"), "{wrong}");
}
