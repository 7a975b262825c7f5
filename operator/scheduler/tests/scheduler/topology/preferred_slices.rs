//! Slices that a group only prefers: all of them are whole if they have room, otherwise the pods use
//! few domains.

use super::slices::with_slices;
use crate::common::*;
use crate::topology::{hall_engine, use_gpus};
use trellis_scheduler::{Engine, Gang, TopologyRequest};

/// Returns a gang of pods that each need a whole node and prefer slices.
fn preferring_gang(count: u32, slices: &[(&str, u32)]) -> Gang {
    let mut gang = with_slices(workers("w", count, gpu(8, 8)), slices);
    gang.groups[0].prefers_slices = true;
    gang
}

/// Returns racks of 3, 3 and 4 nodes in one block, and a rack of 1 node in another.
fn hall() -> Engine {
    hall_engine([
        "a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "a2-2", "a3-0", "a3-1", "a3-2", "a3-3", "b1-0",
    ])
}

#[test]
fn preferred_slices_are_whole_if_all_have_room() {
    let gang = preferring_gang(6, &[("rack", 3)]);
    let placed = trial_placement(&mut hall(), &gang);
    assert_eq!(placed, "worker: a1-0*1 a1-1*1 a1-2*1 a2-0*1 a2-1*1 a2-2*1");
    let mut required = gang;
    required.groups[0].prefers_slices = false;
    assert_eq!(trial_placement(&mut hall(), &required), placed);
}

#[test]
fn gang_without_room_for_preferred_slices_uses_few_racks() {
    let mut engine = hall();
    for used in ["a1-0", "a2-0"] {
        use_gpus(&mut engine, used, 1);
    }
    // Only the rack of 4 nodes holds a slice. Without slices, two racks suffice.
    let gang = preferring_gang(6, &[("rack", 3)]);
    let placed = trial_placement(&mut engine, &gang);
    assert_eq!(placed, "worker: a1-1*1 a1-2*1 a3-0*1 a3-1*1 a3-2*1 a3-3*1");
    let mut near = workers("w", 6, gpu(8, 8));
    near.groups[0].topology = Some(TopologyRequest::preferred("rack"));
    assert_eq!(trial_placement(&mut engine, &near), placed);
    // A required domain of the group stays required.
    let mut in_block = preferring_gang(6, &[("rack", 3)]);
    in_block.groups[0].topology = Some(TopologyRequest::required("block"));
    assert_eq!(trial_placement(&mut engine, &in_block), placed);
    let mut too_large = preferring_gang(9, &[("rack", 3)]);
    too_large.groups[0].topology = Some(TopologyRequest::required("block"));
    let explanation = trial_explanation(&mut engine, &too_large).to_string();
    assert!(!explanation.contains("slices"), "{explanation}");
}

/// Each block has three racks of 3 nodes: room for a slice of 8, and for no slice of 4.
#[test]
fn outer_slices_are_whole_without_room_for_the_inner_ones() {
    let names = ["a", "b"].into_iter().flat_map(|block| {
        (1..4).flat_map(move |rack| (0..3).map(move |node| format!("{block}{rack}-{node}")))
    });
    let names: Vec<String> = names.collect();
    let mut engine = hall_engine(names.iter().map(String::as_str));
    let gang = preferring_gang(16, &[("block", 8), ("rack", 4)]);
    let placed = trial_placement(&mut engine, &gang);
    let in_block = |block| placed.matches(&format!(" {block}")).count();
    assert_eq!((in_block("a"), in_block("b")), (8, 8), "{placed}");
}

#[test]
fn preferred_slices_of_a_missing_level_make_the_gang_wait() {
    let gang = preferring_gang(6, &[("shelf", 3)]);
    let explanation = trial_explanation(&mut hall(), &gang).to_string();
    assert!(explanation.contains("\"shelf\""), "{explanation}");
}
