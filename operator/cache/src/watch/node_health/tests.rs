#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use super::*;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn node_set(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|n| (*n).to_owned()).collect()
}

/// Returns the health of a process that started a while ago: nodes that it never saw are already
/// abandoned.
fn health_after_startup() -> (NodeHealth, Instant) {
    let began = Instant::now();
    let mut health = NodeHealth::new(began);
    let now = began + ABANDONED_AFTER;
    assert!(health.take_changes(now).unknown_nodes_abandoned);
    (health, now)
}

#[test]
fn unready_node_is_lost_and_then_abandoned() {
    let (mut health, t) = health_after_startup();
    health.apply("a", true, t);
    assert_eq!(health.health_of("a", t), Health::Ready);
    health.apply("a", false, t);
    health.apply("a", false, t + seconds(10));
    assert_eq!(health.health_of("a", t), Health::Unready);
    assert_eq!(health.health_of("a", t + seconds(39)), Health::Unready);
    assert_eq!(health.health_of("a", t + LOST_AFTER), Health::Lost);
    assert_eq!(health.health_of("a", t + seconds(59)), Health::Lost);
    assert_eq!(
        health.health_of("a", t + ABANDONED_AFTER),
        Health::Abandoned
    );
    health.apply("a", true, t + seconds(70));
    assert_eq!(health.health_of("a", t + seconds(70)), Health::Ready);
}

#[test]
fn node_down_at_startup_is_reported_when_lost_and_abandoned() {
    let t = Instant::now();
    let mut health = NodeHealth::new(t);
    health.apply("down", false, t);
    health.apply("up", true, t);
    assert_eq!(health.take_changes(t).nodes, node_set(&["down"]));
    assert_eq!(health.take_changes(t + seconds(1)).nodes, node_set(&[]));
    assert_eq!(health.next_change(t), Some(t + LOST_AFTER));
    assert_eq!(
        health.take_changes(t + LOST_AFTER).nodes,
        node_set(&["down"])
    );
    assert_eq!(
        health.next_change(t + LOST_AFTER),
        Some(t + ABANDONED_AFTER)
    );
    assert_eq!(
        health.take_changes(t + ABANDONED_AFTER).nodes,
        node_set(&["down"])
    );
    assert_eq!(health.next_change(t + ABANDONED_AFTER), None);
    health.apply("down", true, t + seconds(90));
    assert_eq!(
        health.take_changes(t + seconds(90)).nodes,
        node_set(&["down"])
    );
}

#[test]
fn no_node_is_lost_while_most_nodes_are_down() {
    let (mut health, t) = health_after_startup();
    let nodes = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    for (i, node) in nodes.iter().enumerate() {
        health.apply(node, i >= 6, t);
    }
    assert_eq!(health.take_changes(t).nodes.len(), 6);
    let later = t + seconds(100);
    assert_eq!(health.health_of("a", later), Health::Unready);
    assert_eq!(health.next_change(t), None, "time alone changes nothing");
    assert_eq!(health.take_changes(later).nodes, node_set(&[]));
    for node in ["c", "d", "e", "f"] {
        health.apply(node, true, later);
    }
    // The changes include all nodes: those that are ready again, and those that are now lost.
    let changed = health.take_changes(later).nodes;
    assert_eq!(changed, node_set(&["a", "b", "c", "d", "e", "f"]));
    assert_eq!(health.health_of("a", later), Health::Abandoned);
}

#[test]
fn deleted_node_is_lost_at_once_and_abandoned_later() {
    let (mut health, t) = health_after_startup();
    health.apply("a", true, t);
    health.delete("a", t);
    assert_eq!(health.health_of("a", t), Health::Lost);
    assert_eq!(health.health_of("a", t + seconds(59)), Health::Lost);
    assert_eq!(
        health.next_change(t + LOST_AFTER),
        Some(t + ABANDONED_AFTER)
    );
    assert_eq!(health.take_changes(t).nodes, node_set(&["a"]));
    // The node registers again in time, before any pod is deleted by force.
    let mut back = NodeHealth::new(t);
    back.apply("a", true, t);
    back.delete("a", t);
    back.apply("a", true, t + seconds(5));
    assert_eq!(back.health_of("a", t + seconds(90)), Health::Ready);
    // The node does not register again. It is reported once more and then forgotten.
    assert!(health.contains("a"));
    assert_eq!(
        health.take_changes(t + ABANDONED_AFTER).nodes,
        node_set(&["a"])
    );
    assert!(!health.contains("a"));
    assert_eq!(
        health.health_of("a", t + ABANDONED_AFTER),
        Health::Abandoned
    );
    assert_eq!(
        health.take_changes(t + seconds(90)),
        HealthChanges::default()
    );
    assert_eq!(health.next_change(t + ABANDONED_AFTER), None);
}

#[test]
fn unknown_node_is_abandoned_60_seconds_after_startup() {
    let t = Instant::now();
    let mut health = NodeHealth::new(t);
    assert_eq!(health.health_of("never-seen", t), Health::Lost);
    assert!(!health.take_changes(t).unknown_nodes_abandoned);
    assert_eq!(health.next_change(t), Some(t + ABANDONED_AFTER));
    assert_eq!(
        health.health_of("never-seen", t + ABANDONED_AFTER),
        Health::Abandoned
    );
    assert!(
        health
            .take_changes(t + ABANDONED_AFTER)
            .unknown_nodes_abandoned
    );
    assert!(
        !health.take_changes(t + seconds(61)).unknown_nodes_abandoned,
        "told once"
    );
}

#[test]
fn deleted_nodes_do_not_count_as_down() {
    let (mut health, t) = health_after_startup();
    for node in ["a", "b", "c", "d", "e"] {
        health.apply(node, true, t);
    }
    for node in ["a", "b", "c"] {
        health.delete(node, t);
    }
    health.apply("d", false, t);
    assert_eq!(health.health_of("d", t + LOST_AFTER), Health::Lost);
}

/// The counts match a recount after any sequence of events.
#[test]
fn node_counts_match_a_recount() {
    let mut t = Instant::now();
    let mut health = NodeHealth::new(t);
    let mut random: u32 = 7;
    let mut cut_off = 0;
    for _ in 0..5000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let node = format!("n{}", (random >> 8) % 9);
        match (random >> 16) % 8 {
            0 => health.delete(&node, t),
            1 => {
                health.take_changes(t);
            }
            kind => {
                health.apply(&node, kind % 2 == 0, t);
            }
        }
        t += seconds(u64::from((random >> 24) % 10));
        let states = || health.nodes.values().copied();
        let down = states().filter(|n| n.is_down()).count();
        let there = states().filter(|n| n.is_present()).count();
        assert_eq!((health.down_count, health.present_count), (down, there));
        cut_off += usize::from(health.is_cut_off());
    }
    assert!(cut_off > 100 && cut_off < 4900, "{cut_off}");
}
