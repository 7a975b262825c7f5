//! Changes of a gang's own request with which it would start.

use proptest::prelude::*;
use trellis_scheduler::{
    ChangedRequest, Engine, FlavorName, Gang, GroupName, RequestChange, TopologyRequest,
    find_request_changes,
};

use crate::common::*;
use crate::queues::{engine_with_two_offered_flavors, small_gang};
use crate::topology::slices::with_slices;
use crate::topology::{hall_engine, requiring_one_rack, use_gpus, whole_node_gang};

/// Returns the changes for a waiting gang after a cycle.
fn changes(engine: &mut Engine, gang: &Gang) -> Vec<RequestChange> {
    engine.apply_gang(gang.clone());
    cycle(engine);
    let snapshot = engine.snapshot();
    find_request_changes(&mut Engine::from_snapshot(&snapshot), &snapshot, &gang.id)
}

fn for_gang(topology: TopologyRequest) -> RequestChange {
    RequestChange {
        groups: Vec::new(),
        value: ChangedRequest::Topology(topology),
    }
}

fn for_worker(value: ChangedRequest) -> RequestChange {
    RequestChange {
        groups: vec![GroupName::new("worker")],
        value,
    }
}

#[test]
fn coarser_level_comes_before_a_preference() {
    let pair = requiring_one_rack(whole_node_gang(2, None));
    let mut engine = hall_engine(["a1-0", "a2-0", "b1-0"]);
    let block = TopologyRequest::required_and_preferred("block", "rack");
    assert_eq!(changes(&mut engine, &pair), [for_gang(block)]);
    let mut engine = hall_engine(["a1-0", "b1-0"]);
    let preferred = TopologyRequest::preferred("rack");
    assert_eq!(changes(&mut engine, &pair), [for_gang(preferred)]);
}

#[test]
fn slices_become_a_preference() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "b1-0"]);
    let sliced = with_slices(whole_node_gang(4, None), &[("rack", 2)]);
    let preferred = for_worker(ChangedRequest::PreferredSlices);
    assert_eq!(changes(&mut engine, &sliced), [preferred]);
}

#[test]
fn gang_that_names_a_flavor_starts_in_another() {
    let mut engine = engine_with_two_offered_flavors();
    let mut gang = small_gang("q", "w", 2);
    gang.groups[0].flavors = vec![FlavorName::new("h100")];
    for taken in ["first", "second", "third", "fourth"] {
        let mut taken = small_gang("q", taken, 2);
        taken.groups[0].flavors.clone_from(&gang.groups[0].flavors);
        engine.apply_gang(taken);
    }
    cycle(&mut engine);
    let other = for_worker(ChangedRequest::Flavor(FlavorName::new("a100")));
    assert_eq!(changes(&mut engine, &gang), [other]);
}

#[test]
fn change_that_does_not_suffice_is_left_out() {
    let pair = requiring_one_rack(whole_node_gang(2, None));
    let mut engine = hall_engine(["a1-0", "b1-0"]);
    use_gpus(&mut engine, "b1-0", 1);
    assert_eq!(changes(&mut engine, &pair), []);
    // The queue has no quota for the gang.
    let mut engine = hall_engine(["a1-0", "b1-0"]);
    engine.apply_queue(queue("default", Some(&[(GPU, 8)])));
    assert_eq!(changes(&mut engine, &pair), []);
}

#[test]
fn gang_that_can_start_needs_no_change() {
    let mut engine = hall_engine(["a1-0", "a1-1"]);
    let pair = requiring_one_rack(whole_node_gang(2, None));
    engine.apply_gang(pair.clone());
    let snapshot = engine.snapshot();
    let found = find_request_changes(&mut Engine::from_snapshot(&snapshot), &snapshot, &pair.id);
    assert_eq!(found, []);
}

/// Returns the gang as a user would submit it with the change.
fn changed(gang: &Gang, change: &RequestChange) -> Gang {
    let mut gang = gang.clone();
    match (change.groups.as_slice(), &change.value) {
        ([], ChangedRequest::Topology(topology)) => gang.topology = Some(topology.clone()),
        ([_], ChangedRequest::PreferredSlices) => gang.groups[0].prefers_slices = true,
        other => panic!("{other:?}"),
    }
    gang
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn gang_starts_with_each_change(
        used in prop::collection::vec(0..3_i64, 6),
        pods in 1..4_u32,
        slice in prop::option::of(1..3_u32),
        needs_rack in any::<bool>(),
    ) {
        let nodes = ["a1-0", "a1-1", "a2-0", "b1-0", "b1-1", "b2-0"];
        let hall = || {
            let mut engine = hall_engine(nodes);
            for (node, used) in nodes.iter().zip(&used) {
                if *used > 0 {
                    use_gpus(&mut engine, node, 4 * used);
                }
            }
            engine
        };
        let gang = workers("w", pods * slice.unwrap_or(1), gpu(1, 4));
        let gang = match needs_rack {
            true => requiring_one_rack(gang),
            false => gang,
        };
        let gang = match slice {
            Some(slice) => with_slices(gang, &[("rack", slice)]),
            None => gang,
        };
        for change in changes(&mut hall(), &gang) {
            let mut engine = hall();
            engine.apply_gang(changed(&gang, &change));
            prop_assert_eq!(cycle(&mut engine), ["+w"], "{:?}", change);
        }
    }
}
