//! Snapshots of the scheduler, which `trellis replay` reads.

use std::collections::BTreeSet;

use trellis_scheduler::{Engine, Gang, Resources, Snapshot};

use crate::Target;

/// The target. Any snapshot that is read can be restored and continued, holds no negative amount,
/// and gives the same decisions each time.
pub const TARGET: Target = Target {
    check,
    words: &[
        "nodes",
        "pods",
        "queues",
        "gangs",
        "gang",
        "request",
        "allocatable",
        "place",
        "standing",
        "Settled",
        "Nominated",
        "charged",
        "amount",
        "held",
        "kept",
        "limits",
        "now",
        "null",
    ],
    inputs_per_case: 64,
};

/// Largest number of pods of a gang, as in the API.
const MAX_PODS: u64 = 10_000;

fn check(input: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(input) else {
        return;
    };
    let pods = snapshot.pods.iter().map(|pod| &pod.request);
    let nodes = snapshot.nodes.iter().map(|node| &node.allocatable);
    pods.chain(nodes).for_each(check_amounts);
    let gangs = || snapshot.gangs.iter().map(|saved| &saved.gang);
    let is_small = |gang: &Gang| gang.pod_count() <= MAX_PODS;
    if !gangs().all(is_small) {
        return;
    }
    let mut engine = Engine::from_snapshot(&snapshot);
    let mut twin = Engine::from_snapshot(&snapshot);
    assert_eq!(engine.snapshot(), twin.snapshot());
    let decisions = engine.cycle(snapshot.now);
    assert_eq!(
        twin.cycle(snapshot.now),
        decisions,
        "a replay decides the same"
    );
    let names: BTreeSet<_> = gangs().map(|gang| &gang.id).collect();
    for pending in engine.pending_gangs() {
        assert!(names.contains(pending), "{pending} comes from nowhere");
    }
}

fn check_amounts(resources: &Resources) {
    for (resource, amount) in resources.iter() {
        assert!(amount >= 0, "{amount} of {}", resource.as_str());
    }
}
