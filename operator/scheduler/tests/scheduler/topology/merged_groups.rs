//! Tests of merged groups: slices count the pods of several task groups.

use std::collections::BTreeMap;

use crate::common::*;
use crate::flavors::offered::queue_with_flavors;
use crate::kept_places::{node_names, placement_text};
use crate::oracle::build_engine;
use crate::preemption::{apply_pods_of, delete_pods_of, run_cycle_at, seconds};
use crate::queues::flavor;
use crate::random::with_merged_groups;
use crate::snapshots::restored_engine;
use crate::topology::oracle::{any_cluster, with_topologies};
use crate::topology::slices::with_slices;
use crate::topology::{hall_engine, use_gpus};
use proptest::prelude::*;
use trellis_scheduler::{
    ChangedRequest, Engine, Flavor, Gang, GroupName, NodeName, PodKey, RequestChange, Resources,
    SliceLayer, TopologyRequest, find_request_changes,
};

/// Returns a gang of a master and workers, each on a whole node, in slices.
fn gang_with_master(workers: u32, slices: &[(&str, u32)]) -> Gang {
    let groups = vec![
        group("master", 1, gpu(8, 8)),
        group("worker", workers, gpu(8, 8)),
    ];
    with_slices(with_merged_groups(gang("w", groups), 2), slices)
}

/// Returns racks of 2, 4 and 4 nodes.
fn hall() -> Engine {
    hall_engine([
        "a1-0", "a1-1", "a2-0", "a2-1", "a2-2", "a2-3", "a3-0", "a3-1", "a3-2", "a3-3",
    ])
}

#[test]
fn first_slice_has_the_master_and_the_first_workers() {
    let gang = gang_with_master(7, &[("rack", 4)]);
    assert_eq!(
        trial_placement(&mut hall(), &gang),
        "master: a2-0*1, worker: a2-1*1 a2-2*1 a2-3*1 a3-0*1 a3-1*1 a3-2*1 a3-3*1"
    );
    let mut engine = hall();
    use_gpus(&mut engine, "a3-0", 1);
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "8 pods must be in slices of 4, each in one domain of level \"rack\"; 1 of 2 slices has \
         room; \"a/3\" comes closest to another slice, with room for 3 of its 4 pods; it would fit \
         with 1 nvidia.com/gpu more free on \"a3-0\""
    );
}

#[test]
fn even_split_counts_all_parts() {
    let preferred = || Some(TopologyRequest::preferred("rack"));
    let mut gang = gang_with_master(5, &[]);
    gang.topology = preferred();
    gang.groups[0].topology = preferred();
    gang.groups[0].balanced = true;
    assert_eq!(
        trial_placement(&mut hall(), &gang),
        "master: a2-0*1, worker: a2-1*1 a2-2*1 a3-0*1 a3-1*1 a3-2*1"
    );
}

/// A change of the gang's slices names the field of the gang, even if the gang has a single group.
#[test]
fn change_of_the_request_names_the_field_of_the_gang() {
    for parts in [vec![("worker", 4)], vec![("master", 1), ("worker", 3)]] {
        let groups = parts
            .iter()
            .map(|(name, count)| group(name, *count, gpu(8, 8)));
        let mut gang = with_merged_groups(gang("w", groups.collect()), 2);
        gang = with_slices(gang, &[("rack", 4)]);
        let mut engine = hall();
        for node in ["a2-0", "a3-0"] {
            use_gpus(&mut engine, node, 1);
        }
        engine.apply_gang(gang.clone());
        engine.cycle(ms(0));
        let snapshot = engine.snapshot();
        let mut restored = Engine::from_snapshot(&snapshot);
        let changes = find_request_changes(&mut restored, &snapshot, &id("w"));
        let slices = RequestChange {
            groups: Vec::new(),
            value: ChangedRequest::PreferredSlices,
        };
        assert_eq!(changes, [slices], "{parts:?}");
    }
}

#[test]
fn messages_name_all_parts_if_the_gang_has_another_group() {
    let mut gang = gang_with_master(7, &[("rack", 4)]);
    gang.groups.push(group("evaluator", 1, gpu(8, 8)));
    let mut engine = hall();
    use_gpus(&mut engine, "a3-0", 1);
    let message = trial_explanation(&mut engine, &gang).to_string();
    assert!(
        message.starts_with("group \"master+worker\": 8 pods"),
        "{message}"
    );
}

#[test]
fn replaced_pod_of_any_part_stays_in_its_slice() {
    for (lost, pod) in [("a2-0", "w-master-0"), ("a2-2", "w-worker-1")] {
        let mut engine = hall();
        use_gpus(&mut engine, "a1-0", 1);
        let gang = gang_with_master(2, &[("rack", 3)]);
        engine.apply_gang(gang.clone());
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+w"]);
        assert_eq!(
            placement_text(&engine, "w"),
            "master: a2-0*1, worker: a2-1*1 a2-2*1"
        );
        apply_pods_of(&mut engine, &gang);
        // Its node takes no pods any more, and a2-3 is the only other node of the rack.
        assert!(engine.keep_place(&id("w"), &node_names(&[lost]), seconds(120)));
        delete_pods_of(&mut engine, &gang);
        let again = Gang {
            excluded_nodes: node_names(&[lost]),
            ..gang
        };
        engine.apply_gang(again);
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
        let expected = match lost {
            "a2-0" => "master: a2-3*1, worker: a2-1*1 a2-2*1",
            _ => "master: a2-0*1, worker: a2-1*1 a2-3*1",
        };
        assert_eq!(placement_text(&engine, "w"), expected, "{pod}");
    }
}

#[test]
fn pods_of_each_part_are_recognised_by_name() {
    let mut engine = hall();
    let gang = gang_with_master(3, &[("rack", 4)]);
    engine.apply_gang(gang.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+w"]);
    let keys: Vec<PodKey> = gang.pod_keys().collect();
    assert_eq!(
        keys.iter().map(PodKey::as_str).collect::<Vec<_>>(),
        [
            "team/w-master-0",
            "team/w-worker-0",
            "team/w-worker-1",
            "team/w-worker-2"
        ]
    );
    apply_pods_of(&mut engine, &gang);
    // Each pod counts once, on its node.
    for node in ["a2-0", "a2-1", "a2-2", "a2-3"] {
        assert_eq!(free_amount(&engine, node, GPU), 0, "{node}");
    }
    assert_eq!(free_amount(&engine, "a3-0", GPU), 8);
    engine.delete_pod(&PodKey::new("team/w-worker-0"));
    assert_eq!(free_amount(&engine, "a2-1", GPU), 8);
    assert_eq!(free_amount(&engine, "a2-0", GPU), 0);
}

#[test]
fn all_parts_get_the_flavor_of_the_merged_group() {
    let mut engine = hall();
    engine.apply_flavor(Flavor {
        node_labels: BTreeMap::new(),
        ..flavor("h100")
    });
    engine.apply_queue(queue_with_flavors("default", None, &[("h100", 80)]));
    let gang = gang_with_master(3, &[("rack", 4)]);
    engine.apply_gang(gang.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+w"]);
    let flavors = engine.flavors(&id("w")).unwrap();
    let names: Vec<&str> = flavors.iter().map(|f| f.group.as_str()).collect();
    assert_eq!(names, ["master", "worker"]);
    assert_eq!(flavors[0].flavors, flavors[1].flavors);
    // A restored engine knows them by the names of the parts.
    let placement = engine.placement(&id("w")).unwrap();
    let mut other = hall();
    other.restore_gang_with_flavors(gang, placement.clone(), &flavors, seconds(0));
    assert_eq!(other.flavors(&id("w")), Some(flavors));
    assert_eq!(other.placement(&id("w")), Some(placement));
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// A merged group is placed as one group of as many pods, and survives a snapshot.
    #[test]
    fn merged_group_is_placed_as_one_group(
        (nodes, pods) in any_cluster(),
        (slices, size) in (1..4_u32, 1..4_u32),
        (cpu, gpus) in (0..3_i64, 0..3_i64),
        cuts in (0..12_u32, 0..12_u32),
        level in prop_oneof![Just("pod"), Just("leaf")],
    ) {
        let request = Resources::new().with("cpu", cpu).with(GPU, gpus);
        let all = slices * size;
        let (first, second) = (cuts.0.min(cuts.1).min(all), cuts.0.max(cuts.1).min(all));
        let counts = [first, second - first, all - second];
        let parts = counts.iter().enumerate();
        let parts = parts.map(|(at, count)| group(&format!("g{at}"), *count, request.clone()));
        let sliced = |gang: Gang| {
            let mut gang = gang;
            gang.groups[0].slices = vec![SliceLayer::new(level, size)];
            gang
        };
        let merged = sliced(with_merged_groups(gang("w", parts.collect()), 3));
        let single = sliced(gang("w", vec![group("g", all, request)]));
        let place = |gang: &Gang| -> Result<Option<Vec<NodeName>>, TestCaseError> {
            let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
            engine.apply_gang(gang.clone());
            engine.cycle(ms(0));
            let twin = restored_engine(&engine)?;
            prop_assert_eq!(twin.placement(&gang.id), engine.placement(&gang.id));
            let placement = engine.placement(&gang.id);
            Ok(placement.map(|placement| placement.iter().map(|(.., node)| node.clone()).collect()))
        };
        prop_assert_eq!(place(&merged)?, place(&single)?);
        let mut engine = with_topologies(build_engine(nodes.iter(), &pods));
        if let Ok(outlook) = engine.try_gang(&merged, ms(0)) {
            for (at, count) in counts.into_iter().enumerate() {
                let runs = outlook.placement.runs(&GroupName::new(format!("g{at}"))).unwrap();
                prop_assert_eq!(runs.iter().map(|(_, pods)| pods).sum::<u32>(), count);
            }
        }
    }
}
