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
    let mut all = ZoneDisruption::new(PACE);
    for node in 0..nodes {
        all.apply(&node.to_string(), zone("a"), node < unhealthy);
    }
    all
}

#[test]
fn zone_is_disrupted_from_the_threshold_with_over_two_unhealthy_nodes() {
    let now = Instant::now();
    for (nodes, unhealthy, leaves) in [
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
        let leave = zone_with_unhealthy(nodes, unhealthy).eviction_decision("0", now);
        let expected = match leaves {
            true => EvictionDecision::Now,
            false => EvictionDecision::PartialDisruption(RECHECK_INTERVAL),
        };
        assert_eq!(leave, expected, "{unhealthy} of {nodes}");
    }
}

/// Evicts the node if that is allowed.
fn evict_if_allowed(all: &mut ZoneDisruption, node: &str, now: Instant) -> EvictionDecision {
    let leave = all.eviction_decision(node, now);
    assert_eq!(
        all.eviction_decision(node, now),
        leave,
        "to ask takes no turn"
    );
    if leave == EvictionDecision::Now {
        all.record_eviction(node, now);
    }
    leave
}

#[test]
fn unhealthy_nodes_are_evicted_one_by_one_per_zone() {
    let begin = Instant::now();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    let mut all = zone_with_unhealthy(10, 3);
    assert_eq!(
        evict_if_allowed(&mut all, "1", at(0)),
        EvictionDecision::Now
    );
    // All gangs on the node may be evicted, also again after a failed write.
    assert_eq!(
        evict_if_allowed(&mut all, "1", at(0)),
        EvictionDecision::Now
    );
    assert_eq!(
        evict_if_allowed(&mut all, "0", at(4)),
        EvictionDecision::After(Duration::from_secs(6))
    );
    assert_eq!(
        evict_if_allowed(&mut all, "0", at(10)),
        EvictionDecision::Now
    );
    assert_eq!(
        evict_if_allowed(&mut all, "2", at(11)),
        EvictionDecision::After(Duration::from_secs(9))
    );
    // Another zone has its own pause.
    all.apply("b", zone("b"), true);
    assert_eq!(
        evict_if_allowed(&mut all, "b", at(11)),
        EvictionDecision::Now
    );
    // The evicted node was healthy in between: it must wait again.
    all.apply("1", zone("a"), false);
    all.apply("1", zone("a"), true);
    assert_eq!(
        evict_if_allowed(&mut all, "1", at(12)),
        EvictionDecision::After(Duration::from_secs(8))
    );
    // A healthy node is not evicted.
    assert_eq!(
        evict_if_allowed(&mut all, "9", at(60)),
        EvictionDecision::After(PACE.interval)
    );
    assert_eq!(
        evict_if_allowed(&mut all, "2", at(60)),
        EvictionDecision::Now
    );
}

#[test]
fn zone_change_is_reported_once_per_direction() {
    let mut all = zone_with_unhealthy(5, 2);
    let turned = all.apply("2", zone("a"), true);
    let told: Vec<_> = turned
        .iter()
        .map(|t| (t.disrupted, t.unhealthy, t.nodes))
        .collect();
    assert_eq!(told, [(true, 3, 5)]);
    assert_eq!(all.apply("3", zone("a"), true), []);
    assert_eq!(all.apply("3", zone("a"), true), []);
    assert_eq!(all.delete("0"), []);
    let turned = all.apply("1", zone("a"), false);
    assert_eq!(turned.len(), 1);
    assert!(!turned[0].disrupted);
    // An unhealthy node that moves to another zone counts there.
    for node in ["x", "y"] {
        all.apply(node, zone("b"), true);
    }
    let turned = all.apply("2", zone("b"), true);
    assert_eq!(turned.len(), 1);
    assert_eq!((turned[0].zone.clone(), turned[0].nodes), (zone("b"), 3));
}

#[test]
fn nodes_with_gpus_form_their_own_zone() {
    let of = |labels: Value, allocatable: Value| {
        let node = json!({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}});
        EvictionZone::from_node(&serde_json::from_value(node).unwrap())
    };
    let gpu = json!({"cpu": "8", "nvidia.com/gpu": "0"});
    let labels = json!({"topology.kubernetes.io/zone": "a"});
    let bare = of(json!({}), json!({"cpu": "8", "hugepages-2Mi": "0"}));
    assert!(!bare.has_gpus);
    assert_eq!(of(json!({"team": "x"}), json!({})), bare);
    assert_ne!(of(json!({}), gpu.clone()), bare);
    assert_ne!(of(labels.clone(), gpu.clone()), of(json!({}), gpu.clone()));
    assert_eq!(of(labels.clone(), gpu.clone()).name.as_deref(), Some("a"));
    // A cloud provider's resource on nodes without GPUs.
    let cpu = json!({"cpu": "8", "vpc.example.com/pod-eni": "38"});
    assert_eq!(of(json!({}), cpu), bare);
    // In a cluster that was upgraded, some nodes have the old labels and some both.
    let both = json!({
        "topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/zone": "a",
    });
    let old = json!({"failure-domain.beta.kubernetes.io/zone": "a"});
    assert_eq!(of(both, gpu.clone()), of(labels.clone(), gpu.clone()));
    assert_eq!(of(old, gpu.clone()), of(labels, gpu));
}

proptest! {
    /// The counts match the nodes, and each change of a zone's state is reported.
    #[test]
    fn zone_counts_match_the_nodes_after_any_changes(
        steps in proptest::collection::vec((0_u8..12, 0_u8..3, 0_u8..3), 1..80),
    ) {
        let mut all = ZoneDisruption::new(PACE);
        let mut told = BTreeMap::new();
        for (node, place, state) in steps {
            let (node, place) = (node.to_string(), zone(&place.to_string()));
            let turned = match state {
                0 => all.delete(&node),
                state => all.apply(&node, place, state == 2),
            };
            for turned in turned {
                told.insert(turned.zone, turned.disrupted);
            }
            for place in ["0", "1", "2"] {
                let place = zone(place);
                let of_zone = all.nodes.values().filter(|(zone, _)| *zone == place);
                let count = of_zone.clone().count();
                let unhealthy = of_zone.filter(|(_, unhealthy)| *unhealthy).count();
                let tally = all.zones.get(&place).copied().unwrap_or_default();
                prop_assert_eq!((tally.nodes, tally.unhealthy), (count, unhealthy));
                let said = told.get(&place).copied().unwrap_or_default();
                prop_assert_eq!(said, all.is_disrupted(&place));
            }
        }
    }
}
