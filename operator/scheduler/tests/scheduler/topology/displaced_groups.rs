//! Tests of task groups that leave the best-fitting rack to a group that fits only there.

use crate::common::*;
use crate::topology::fit::add_preference;
use crate::topology::{hall_engine, hall_node, use_gpus};
use trellis_scheduler::{Engine, Gang, TaskGroup, TopologyRequest};

#[test]
fn displaced_group_takes_the_rack_with_the_least_free_capacity() {
    // The largest pods go first: `big` would take `a1`, the best fit. `fast` fits only there.
    let larger = |name| {
        let mut node = hall_node(name);
        node.allocatable = node.allocatable.clone().with(GPU, 12);
        node
    };
    let mut engine = hall_engine([]);
    engine.apply_node(label(hall_node("a1-0"), "fast", "yes"));
    engine.apply_node(larger("a2-0"));
    engine.apply_node(larger("a3-0"));
    use_gpus(&mut engine, "a3-0", 1);
    let in_a_rack = |name: &str, count, gpus| TaskGroup {
        topology: Some(TopologyRequest::required("rack")),
        ..group(name, count, gpu(1, gpus))
    };
    let mut fast = in_a_rack("fast", 4, 2);
    let selector = &mut fast.constraints.node_selector;
    selector.insert("fast".into(), "yes".into());
    let gang = gang("w", vec![in_a_rack("big", 1, 8), fast]);
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: a3-0*1, fast: a1-0*4"
    );
}

/// Returns a gang whose group `fast` fits only into `c1`, the first choice of `big`. Every other
/// rack has a node of 12 GPUs.
fn colliding_groups(prefers: Option<(&str, &str)>) -> Gang {
    let in_a_rack = |name: &str, count, gpus| TaskGroup {
        topology: Some(TopologyRequest::required("rack")),
        ..group(name, count, gpu(1, gpus))
    };
    let mut fast = in_a_rack("fast", 4, 2);
    let selector = &mut fast.constraints.node_selector;
    selector.insert("fast".into(), "yes".into());
    let mut gang = gang("w", vec![in_a_rack("big", 1, 8), fast]);
    if let Some((key, value)) = prefers {
        add_preference(&mut gang, key, value);
    }
    gang
}

fn hall_with_a_fast_node(names: &[&str]) -> Engine {
    let mut engine = hall_engine([]);
    engine.apply_node(label(hall_node("c1-0"), "fast", "yes"));
    for name in names {
        let mut node = hall_node(name);
        node.allocatable = node.allocatable.clone().with(GPU, 12);
        engine.apply_node(node);
    }
    engine
}

#[test]
fn displaced_group_takes_a_rack_of_the_used_block() {
    let mut engine = hall_with_a_fast_node(&["a1-0", "a2-0", "b1-0", "b2-0"]);
    use_gpus(&mut engine, "b2-0", 12);
    let gang = colliding_groups(None);
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: b1-0*1, fast: c1-0*4"
    );
}

#[test]
fn displaced_group_takes_the_preferred_of_equally_full_racks() {
    let mut engine = hall_with_a_fast_node(&["a1-0", "a2-0", "b1-0", "b2-0"]);
    let gang = colliding_groups(Some(("block", "b")));
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: b1-0*1, fast: c1-0*4"
    );
    // A rack that is already in use goes before a preferred rack.
    use_gpus(&mut engine, "a2-0", 1);
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: a2-0*1, fast: c1-0*4"
    );
}

/// The block with the least free capacity has no rack that holds `big`.
#[test]
fn displaced_group_takes_the_block_with_the_best_fitting_rack() {
    let names = ["a1-0", "a2-0", "b1-0", "b1-1", "b2-0", "b2-1"];
    let mut engine = hall_with_a_fast_node(&names);
    for (name, gpus) in [
        ("a2-0", 3),
        ("b1-0", 8),
        ("b1-1", 12),
        ("b2-0", 8),
        ("b2-1", 12),
    ] {
        use_gpus(&mut engine, name, gpus);
    }
    let mut gang = colliding_groups(None);
    for group in &mut gang.groups {
        group.topology = Some(TopologyRequest::required("block"));
    }
    gang.groups[0].count = 2;
    gang.groups[0].request = gpu(1, 4);
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: a2-0*2, fast: c1-0*4"
    );
}
