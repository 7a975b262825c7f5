#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PACE: EvictionPace = EvictionPace {
    threshold: 0.55,
    interval: Duration::from_secs(10),
};

fn zone(name: &str) -> EvictionZone {
    EvictionZone {
        region: None,
        name: Some(name.to_owned()),
        has_gpus: true,
    }
}

/// Returns a zone of that many nodes, of which the first are unhealthy.
fn zone_with_unhealthy(nodes: usize, unhealthy: usize) -> ZoneDisruption {
    let mut zones = ZoneDisruption::new(PACE);
    for node in 0..nodes {
        zones.apply(&node.to_string(), zone("a"), node < unhealthy);
    }
    zones
}

#[test]
fn zone_is_disrupted_from_the_threshold_with_over_two_unhealthy_nodes() {
    let now = Instant::now();
    for (nodes, unhealthy, may_evict) in [
        (1, 1, true),
        (2, 2, true),
        (3, 2, true),
        (3, 3, false),
        (4, 3, false),
        (5, 3, false),
        (6, 3, true),
        (20, 10, true),
        (20, 11, false),
        (100, 54, true),
        (100, 55, false),
        (100, 100, false),
    ] {
        let decision = zone_with_unhealthy(nodes, unhealthy).eviction_decision("0", now);
        let expected = match may_evict {
            true => EvictionDecision::Now,
            false => EvictionDecision::PartialDisruption(RECHECK_INTERVAL),
        };
        assert_eq!(decision, expected, "{unhealthy} of {nodes}");
    }
}

/// Evicts the node if that is allowed.
fn evict_if_allowed(zones: &mut ZoneDisruption, node: &str, now: Instant) -> EvictionDecision {
    let decision = zones.eviction_decision(node, now);
    assert_eq!(
        zones.eviction_decision(node, now),
        decision,
        "a decision alone changes nothing"
    );
    if decision == EvictionDecision::Now {
        zones.record_eviction(node, now);
    }
    decision
}

#[test]
fn unhealthy_nodes_are_evicted_one_by_one_per_zone() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut zones = zone_with_unhealthy(10, 3);
    assert_eq!(
        evict_if_allowed(&mut zones, "1", at(0)),
        EvictionDecision::Now
    );
    // All gangs on the node may be evicted, and again after a failed write.
    assert_eq!(
        evict_if_allowed(&mut zones, "1", at(0)),
        EvictionDecision::Now
    );
    assert_eq!(
        evict_if_allowed(&mut zones, "0", at(4)),
        EvictionDecision::After(Duration::from_secs(6))
    );
    assert_eq!(
        evict_if_allowed(&mut zones, "0", at(10)),
        EvictionDecision::Now
    );
    assert_eq!(
        evict_if_allowed(&mut zones, "2", at(11)),
        EvictionDecision::After(Duration::from_secs(9))
    );
    // Another zone has its own pause.
    zones.apply("b", zone("b"), true);
    assert_eq!(
        evict_if_allowed(&mut zones, "b", at(11)),
        EvictionDecision::Now
    );
    // The evicted node was healthy in between, so it waits like any other node.
    zones.apply("1", zone("a"), false);
    zones.apply("1", zone("a"), true);
    assert_eq!(
        evict_if_allowed(&mut zones, "1", at(12)),
        EvictionDecision::After(Duration::from_secs(8))
    );
    // A healthy node is not evicted.
    assert_eq!(
        evict_if_allowed(&mut zones, "9", at(60)),
        EvictionDecision::After(PACE.interval)
    );
    assert_eq!(
        evict_if_allowed(&mut zones, "2", at(60)),
        EvictionDecision::Now
    );
}

#[test]
fn zone_change_is_reported_once_per_direction() {
    let mut zones = zone_with_unhealthy(5, 2);
    let changes = zones.apply("2", zone("a"), true);
    let reported: Vec<_> = changes
        .iter()
        .map(|t| (t.disrupted, t.unhealthy, t.nodes))
        .collect();
    assert_eq!(reported, [(true, 3, 5)]);
    assert_eq!(zones.apply("3", zone("a"), true), []);
    assert_eq!(zones.apply("3", zone("a"), true), []);
    assert_eq!(zones.delete("0"), []);
    let changes = zones.apply("1", zone("a"), false);
    assert_eq!(changes.len(), 1);
    assert!(!changes[0].disrupted);
    // An unhealthy node that moves to another zone counts there.
    for node in ["x", "y"] {
        zones.apply(node, zone("b"), true);
    }
    let changes = zones.apply("2", zone("b"), true);
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].zone.clone(), changes[0].nodes), (zone("b"), 3));
}

#[test]
fn nodes_with_gpus_form_their_own_zone() {
    let zone_of = |labels: Value, allocatable: Value| {
        let node = json!({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}});
        EvictionZone::from_node(&serde_json::from_value(node).unwrap())
    };
    let gpu = json!({"cpu": "8", "nvidia.com/gpu": "0"});
    let labels = json!({"topology.kubernetes.io/zone": "a"});
    let without_gpus = zone_of(json!({}), json!({"cpu": "8", "hugepages-2Mi": "0"}));
    assert!(!without_gpus.has_gpus);
    assert_eq!(zone_of(json!({"team": "x"}), json!({})), without_gpus);
    assert_ne!(zone_of(json!({}), gpu.clone()), without_gpus);
    assert_ne!(
        zone_of(labels.clone(), gpu.clone()),
        zone_of(json!({}), gpu.clone())
    );
    assert_eq!(
        zone_of(labels.clone(), gpu.clone()).name.as_deref(),
        Some("a")
    );
    // Some resources of cloud providers are no GPUs.
    let cpu = json!({"cpu": "8", "vpc.example.com/pod-eni": "38"});
    assert_eq!(zone_of(json!({}), cpu), without_gpus);
    // In a cluster that was upgraded, some nodes have the old labels and some both.
    let both_labels = json!({
        "topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/zone": "a",
    });
    let old_label = json!({"failure-domain.beta.kubernetes.io/zone": "a"});
    assert_eq!(
        zone_of(both_labels, gpu.clone()),
        zone_of(labels.clone(), gpu.clone())
    );
    assert_eq!(zone_of(old_label, gpu.clone()), zone_of(labels, gpu));
}

proptest! {
    /// The counts match the nodes, and each change of a zone's state is reported.
    #[test]
    fn zone_counts_match_the_nodes_after_any_changes(
        steps in proptest::collection::vec((0_u8..12, 0_u8..3, 0_u8..3), 1..80),
    ) {
        let mut zones = ZoneDisruption::new(PACE);
        let mut reported = BTreeMap::new();
        for (node, zone_name, state) in steps {
            let (node, zone_name) = (node.to_string(), zone(&zone_name.to_string()));
            let changes = match state {
                0 => zones.delete(&node),
                state => zones.apply(&node, zone_name, state == 2),
            };
            for changes in changes {
                reported.insert(changes.zone, changes.disrupted);
            }
            for zone_name in ["0", "1", "2"] {
                let zone_name = zone(zone_name);
                let zone_nodes = zones.nodes.values().filter(|(zone, _)| *zone == zone_name);
                let count = zone_nodes.clone().count();
                let unhealthy = zone_nodes.filter(|(_, unhealthy)| *unhealthy).count();
                let tally = zones.zones.get(&zone_name).copied().unwrap_or_default();
                prop_assert_eq!((tally.nodes, tally.unhealthy), (count, unhealthy));
                let is_disrupted = reported.get(&zone_name).copied().unwrap_or_default();
                prop_assert_eq!(is_disrupted, zones.is_disrupted(&zone_name));
            }
        }
    }
}
