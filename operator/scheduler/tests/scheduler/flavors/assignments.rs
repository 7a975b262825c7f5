//! Tests of several flavor assignments of a gang: which one the engine tries, and which one it
//! reports.

use crate::common::*;
use crate::flavors::offered::{engine_with_one_node_per_flavor, queue_with_flavors};
use crate::queues::{flavor, small_gang};
use trellis_scheduler::{Engine, FlavorName, Gang, NodeName, QueueName, WaitReason};

fn of_flavor(mut gang: Gang, flavor: &str) -> Gang {
    for group in &mut gang.groups {
        group.flavors = vec![FlavorName::new(flavor)];
    }
    gang
}

/// Returns an engine with 4 free GPUs of flavor `a`, and 8 held GPUs of flavor `b`.
fn engine_with_small_and_busy_flavors(quota: &[(&str, i64)]) -> Engine {
    let mut engine = engine_with_one_node_per_flavor(&["b"]);
    engine.apply_flavor(flavor("a"));
    engine.apply_node(label(gpu_node("a", 4), "gpu", "a"));
    engine.apply_queue(queue_with_flavors("q", None, quota));
    engine.apply_gang(of_flavor(small_gang("q", "busy", 8), "b"));
    assert_eq!(cycle(&mut engine), ["+busy"]);
    engine
}

#[test]
fn gang_never_fits_only_if_no_flavor_could_hold_it() {
    let eight = |name: &str| Gang {
        queue: QueueName::new("q"),
        ..workers(name, 1, gpu(1, 8))
    };
    // The nodes of `a` are too small, and the nodes of `b` are in use.
    let mut engine = engine_with_small_and_busy_flavors(&[("a", 100), ("b", 100)]);
    let told = trial_explanation(&mut engine, &eight("w"));
    assert_eq!(told.reason, WaitReason::InsufficientCapacity, "{told}");
    // The same holds for quota.
    let mut engine = engine_with_small_and_busy_flavors(&[("a", 4), ("b", 8)]);
    let told = trial_explanation(&mut engine, &eight("w"));
    assert_eq!(told.reason, WaitReason::QuotaExceeded, "{told}");
    // An assignment that lacks only room has passed more checks than one that lacks quota.
    let mut engine = engine_with_small_and_busy_flavors(&[("b", 8), ("a", 8)]);
    engine.apply_gang(of_flavor(small_gang("q", "four", 4), "a"));
    cycle(&mut engine);
    let told = trial_explanation(&mut engine, &small_gang("q", "w", 4));
    assert_eq!(told.reason, WaitReason::InsufficientCapacity, "{told}");
    // The gang starts as soon as the reported assignment works.
    engine.apply_gang(eight("w"));
    assert_eq!(cycle(&mut engine), ["-w QuotaExceeded"]);
    engine.delete_gang(&id("busy"));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

const FIVE: [&str; 5] = ["f0", "f1", "f2", "f3", "f4"];

/// Returns an engine with a node of each of five flavors: four of 2 GPUs, and the last of 8. Three
/// groups have 125 assignments, and the engine tries at most 64.
fn engine_with_five_flavors(quota: i64) -> Engine {
    let mut engine = engine([]);
    for name in FIVE {
        engine.apply_flavor(flavor(name));
        let gpus = if name == "f4" { 8 } else { 2 };
        engine.apply_node(label(gpu_node(name, gpus), "gpu", name));
    }
    let quotas: Vec<(&str, i64)> = FIVE.iter().map(|name| (*name, quota)).collect();
    engine.apply_queue(queue_with_flavors("q", None, &quotas));
    engine
}

fn three_group_gang(gpus: [i64; 3]) -> Gang {
    let names = ["large", "second", "third"].iter().zip(gpus);
    let groups = names.map(|(name, gpus)| group(name, 1, gpu(1, gpus)));
    Gang {
        queue: QueueName::new("q"),
        ..gang("w", groups.collect())
    }
}

#[test]
fn impossible_choices_are_dropped_from_many_assignments() {
    let mut engine = engine_with_five_flavors(100);
    assert_eq!(
        trial_placement(&mut engine, &three_group_gang([8, 1, 1])),
        "large: f4*1, second: f0*1, third: f0*1"
    );
    // If a group can never start, the explanation says so.
    let told = trial_explanation(&mut engine, &three_group_gang([9, 1, 1]));
    assert_eq!(told.reason, WaitReason::ExceedsCluster, "{told}");
    // Quota can rule out choices in the same way as nodes.
    let mut engine = engine_with_five_flavors(2);
    let told = trial_explanation(&mut engine, &three_group_gang([8, 1, 1]));
    assert_eq!(told.reason, WaitReason::ExceedsQuota, "{told}");
}

#[test]
fn dropped_choices_are_updated_when_nodes_change() {
    let mut engine = engine_with_five_flavors(100);
    engine.delete_node(&NodeName::new("f4"));
    engine.apply_gang(three_group_gang([8, 1, 1]));
    assert_eq!(cycle(&mut engine), ["-w ExceedsCluster"]);
    engine.apply_node(label(gpu_node("new", 8), "gpu", "f4"));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn explanation_is_uncertain_past_the_assignment_bound() {
    let mut engine = engine_with_one_node_per_flavor(&FIVE);
    engine.apply_node(label(gpu_node("more", 8), "gpu", "f0"));
    let quotas: Vec<(&str, i64)> = FIVE.iter().map(|name| (*name, 100)).collect();
    engine.apply_queue(queue_with_flavors("q", None, &quotas));
    // The last group takes all of `f0`. The first 125 assignments put the first group there too, so
    // there is no room.
    let mut groups: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| group(name, 1, gpu(1, 8)))
        .collect();
    groups.push(group("e", 2, gpu(1, 8)));
    groups[4].flavors = vec![FlavorName::new("f0")];
    let mut wide = Gang {
        queue: QueueName::new("q"),
        ..gang("w", groups)
    };
    let told = trial_explanation(&mut engine, &wide);
    assert_eq!(
        format!("{}: {told}", told.reason),
        "Fragmented: each task group fits alone, but 6 matching nodes have no room for all 6 pods \
         together; not every way was tried"
    );
    // A group that names flavors has fewer assignments.
    for (group, flavor) in wide.groups.iter_mut().zip(["f1", "f2", "f3", "f4"]) {
        group.flavors = vec![FlavorName::new(flavor)];
    }
    trial_placement(&mut engine, &wide);
}
