//! Tests of lost pods of slices: the slice stays in its domain, or moves as a whole.

use crate::kept_places::{node_names, placement_text};
use crate::preemption::{apply_pods_of, delete_pods_of, run_cycle_at, seconds};
use crate::topology::hall_node;
use crate::topology::slices::{hall, sliced_gang};
use trellis_scheduler::{Engine, Gang};

/// Places the gang `w` and its pods.
fn start(engine: &mut Engine, gang: &Gang) {
    engine.apply_gang(gang.clone());
    assert_eq!(run_cycle_at(engine, seconds(0)), ["+w"]);
    apply_pods_of(engine, gang);
}

/// Restarts the gang `w` in its kept place, without one of its nodes.
fn restart_without(engine: &mut Engine, mut gang: Gang, lost: &str) {
    let lost = node_names(&[lost]);
    assert!(engine.keep_place(&gang.id, &lost, seconds(120)));
    delete_pods_of(engine, &gang);
    gang.excluded_nodes.extend(lost);
    engine.apply_gang(gang);
    assert_eq!(run_cycle_at(engine, seconds(1)), ["+w"]);
}

#[test]
fn replaced_pod_returns_to_the_rack_of_its_slice() {
    let mut engine = hall();
    let gang = sliced_gang(4, &[("rack", 2)]);
    let gang = Gang {
        excluded_nodes: node_names(&["b1-3"]),
        ..gang
    };
    start(&mut engine, &gang);
    assert_eq!(
        placement_text(&engine, "w"),
        "worker: a3-0*1 a3-1*1 b1-0*1 b1-1*1"
    );
    // The best fit for one pod would be b2-0.
    restart_without(&mut engine, gang, "b1-1");
    assert_eq!(
        placement_text(&engine, "w"),
        "worker: a3-0*1 a3-1*1 b1-0*1 b1-2*1"
    );
}

/// The other slices keep their nodes, although one rack has no room for a lost pod.
#[test]
fn slice_without_room_in_its_rack_moves_as_a_whole() {
    let mut engine = hall();
    let gang = sliced_gang(6, &[("rack", 2)]);
    start(&mut engine, &gang);
    let before = "worker: a3-0*1 a3-1*1 b1-0*1 b1-1*1 b1-2*1 b1-3*1";
    assert_eq!(placement_text(&engine, "w"), before);
    // A new rack would hold the whole gang.
    for node in ["c1-0", "c1-1", "c1-2", "c1-3", "c1-4", "c1-5"] {
        engine.apply_node(hall_node(node));
    }
    restart_without(&mut engine, gang, "a3-1");
    let after = "worker: a1-0*1 a1-1*1 b1-0*1 b1-1*1 b1-2*1 b1-3*1";
    assert_eq!(placement_text(&engine, "w"), after);
}

#[test]
fn replaced_pod_of_an_inner_slice_stays_in_its_rack() {
    let mut engine = hall();
    let layers = [("block", 4), ("rack", 2)];
    let gang = Gang {
        excluded_nodes: node_names(&["b1-3"]),
        ..sliced_gang(4, &layers)
    };
    start(&mut engine, &gang);
    let before = placement_text(&engine, "w");
    assert_eq!(before, "worker: a1-0*1 a1-1*1 a3-0*1 a3-1*1");
    restart_without(&mut engine, gang, "a1-0");
    let after = "worker: a1-2*1 a1-1*1 a3-0*1 a3-1*1";
    assert_eq!(placement_text(&engine, "w"), after);
}
