//! Tests of the smallest change that makes room for slices.

use crate::common::*;
use crate::topology::slices::{sliced_gang, with_slices};
use crate::topology::{hall_engine, hall_node, use_gpus};
use trellis_scheduler::{TopologyRequest, UnblockingChange};

/// Both racks are full. Two slices in one rack make the gangs of one rack leave, not of two.
#[test]
fn change_names_the_nodes_of_as_few_domains_as_equal_costs_allow() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1"]);
    for name in ["one", "other"] {
        let mut gang = workers(name, 2, gpu(8, 8));
        gang.groups[0].topology = Some(TopologyRequest::required("rack"));
        engine.apply_gang(gang);
    }
    assert_eq!(cycle(&mut engine), ["+one", "+other"]);
    let explanation = trial_explanation(&mut engine, &sliced_gang(2, &[("rack", 1)]));
    let change = explanation.change.unwrap();
    let UnblockingChange::Free(nodes) = &*change else {
        panic!("{change:?}");
    };
    let nodes: Vec<&str> = nodes.iter().map(|release| release.node.as_str()).collect();
    assert_eq!(nodes, ["a1-0", "a1-1"]);
}

/// The first slice on an overbooked node also frees what is missing already.
#[test]
fn change_pays_for_an_overbooked_node_once() {
    let names = ["a1-0", "a2-0", "a3-0"];
    let mut engine = hall_engine(names);
    for name in names {
        use_gpus(&mut engine, name, 8);
        let mut node = hall_node(name);
        node.allocatable = node.allocatable.clone().with(GPU, 7);
        engine.apply_node(node);
    }
    let gang = with_slices(workers("w", 4, gpu(0, 1)), &[("rack", 2)]);
    let message = trial_explanation(&mut engine, &gang).to_string();
    assert!(
        message.ends_with("it would fit with 5 nvidia.com/gpu more free on \"a1-0\""),
        "{message}"
    );
}
