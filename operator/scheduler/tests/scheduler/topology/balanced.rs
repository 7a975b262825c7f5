//! Tests of the even split: as few domains as possible, with equal numbers of pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::common::*;
use crate::topology::slices::with_slices;
use crate::topology::{hall_engine, topology};
use proptest::prelude::*;
use trellis_scheduler::{Engine, Gang, PlacementStrategy, TopologyRequest};

/// Returns a gang of pods that each need a whole node, split evenly at the preferred level.
fn balanced_gang(count: u32, request: TopologyRequest) -> Gang {
    let mut gang = workers("w", count, gpu(8, 8));
    gang.groups[0].topology = Some(request);
    gang.groups[0].balanced = true;
    gang
}

/// Returns an engine with racks `a1`, `a2` and so on of block `a`, and racks of block `b`. A rack is
/// given by its number of nodes.
fn engine_with_racks(a: &[usize], b: &[usize]) -> Engine {
    let names = |block: &'static str, racks: &[usize]| -> Vec<String> {
        let racks = racks.iter().enumerate();
        let nodes = racks.flat_map(move |(rack, nodes)| {
            (0..*nodes).map(move |node| format!("{block}{}-{node:02}", rack + 1))
        });
        nodes.collect()
    };
    let all = [names("a", a), names("b", b)].concat();
    hall_engine(all.iter().map(String::as_str))
}

/// Returns the pods by rack, such as `a1: 8`, in the order of the racks.
fn pods_by_rack(engine: &mut Engine, gang: &Gang) -> Vec<String> {
    let counts = rack_counts(engine, gang).unwrap_or_default();
    counts
        .into_iter()
        .map(|(rack, pods)| format!("{rack}: {pods}"))
        .collect()
}

fn rack_counts(engine: &mut Engine, gang: &Gang) -> Option<BTreeMap<String, u32>> {
    let placed = engine.try_gang(gang, ms(0)).ok()?.placement;
    let mut counts = BTreeMap::new();
    for (_, _, node) in placed.iter() {
        *counts.entry(node.as_str()[..2].to_owned()).or_default() += 1;
    }
    Some(counts)
}

#[test]
fn pods_are_split_evenly_over_the_fewest_racks() {
    let rack = || TopologyRequest::preferred("rack");
    // Without `balanced`, the largest rack is filled: 15 and 1.
    let mut engine = engine_with_racks(&[15, 9], &[8, 8]);
    let uneven = workers("w", 16, gpu(8, 8));
    let uneven = Gang {
        topology: Some(rack()),
        ..uneven
    };
    assert_eq!(pods_by_rack(&mut engine, &uneven)[0], "a1: 15");
    // The smallest racks that hold 8 are the best fit.
    let split = pods_by_rack(&mut engine, &balanced_gang(16, rack()));
    assert_eq!(split, ["b1: 8", "b2: 8"]);
    let one = pods_by_rack(&mut engine, &balanced_gang(9, rack()));
    assert_eq!(one, ["a2: 9"], "one rack holds all");
    let odd = pods_by_rack(&mut engine, &balanced_gang(17, rack()));
    assert_eq!(odd, ["a2: 9", "b1: 8"]);
    // Two racks hold 20 pods, but no two racks hold 10 each.
    let bounded = pods_by_rack(&mut engine, &balanced_gang(20, rack()));
    assert_eq!(bounded, ["a1: 11", "a2: 9"]);
    assert_eq!(
        pods_by_rack(&mut engine, &balanced_gang(41, rack())),
        [""; 0]
    );
}

#[test]
fn block_with_the_most_even_split_is_chosen() {
    let request = || TopologyRequest::required_and_preferred("block", "rack");
    let mut engine = engine_with_racks(&[7, 3], &[6, 6]);
    let split = pods_by_rack(&mut engine, &balanced_gang(10, request()));
    assert_eq!(split, ["b1: 5", "b2: 5"]);
    // Fewer racks come before an even split.
    let mut engine = engine_with_racks(&[7, 3], &[4, 4, 4]);
    let split = pods_by_rack(&mut engine, &balanced_gang(10, request()));
    assert_eq!(split, ["a1: 7", "a2: 3"]);
}

#[test]
fn racks_get_equal_numbers_of_whole_slices() {
    let rack = TopologyRequest::preferred("rack");
    let mut engine = engine_with_racks(&[14, 7], &[10, 6]);
    // 6 slices of 3: three in each of two racks, not four in a1 and two in another.
    let gang = with_slices(balanced_gang(18, rack.clone()), &[("rack", 3)]);
    assert_eq!(pods_by_rack(&mut engine, &gang), ["a1: 9", "b1: 9"]);
    // Slices of a whole block decide over the preferred rack.
    let gang = with_slices(balanced_gang(16, rack), &[("block", 16)]);
    assert_eq!(pods_by_rack(&mut engine, &gang).len(), 2);
}

#[test]
fn spread_pods_are_split_evenly_too() {
    let mut engine = engine_with_racks(&[6, 4], &[]);
    let gang = Gang {
        strategy: PlacementStrategy::Spread,
        ..balanced_gang(8, TopologyRequest::preferred("rack"))
    };
    assert_eq!(pods_by_rack(&mut engine, &gang), ["a1: 4", "a2: 4"]);
}

/// Returns the number of parts and the smallest part of each split of the pods over the racks.
fn all_splits(racks: &[usize], count: usize) -> Vec<(usize, Reverse<usize>)> {
    let mut splits: Vec<(usize, usize, usize)> = vec![(count, 0, usize::MAX)];
    for rack in racks {
        let more: Vec<_> = splits
            .iter()
            .flat_map(|(left, parts, least)| {
                (1..=*rack.min(left)).map(move |part| (left - part, parts + 1, *least.min(&part)))
            })
            .collect();
        splits.extend(more);
    }
    let whole = splits.into_iter().filter(|(left, ..)| *left == 0);
    whole
        .map(|(_, parts, least)| (parts, Reverse(least)))
        .collect()
}

proptest! {
    #![proptest_config(cases(400))]

    /// No split uses fewer racks, and none over as few racks has a larger smallest part.
    #[test]
    fn split_is_the_best_of_all_splits(
        racks in prop::collection::vec(0..6_usize, 1..6),
        count in 1..20_usize,
    ) {
        let mut engine = engine_with_racks(&racks, &[]);
        engine.apply_topology(topology("hall", &["block", "rack"]));
        let gang = balanced_gang(u32::try_from(count).unwrap(), TopologyRequest::preferred("rack"));
        let counts = rack_counts(&mut engine, &gang);
        let found = counts.map(|counts| {
            let least = counts.values().map(|pods| *pods as usize).min().unwrap();
            (counts.len(), Reverse(least))
        });
        prop_assert_eq!(found, all_splits(&racks, count).into_iter().min());
    }
}
