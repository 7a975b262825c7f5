#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use super::*;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn news(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|n| (*n).to_owned()).collect()
}

/// Health of a process that started a while ago: nodes that it never saw are given up already.
fn health() -> (NodeHealth, Instant) {
    let began = Instant::now();
    let mut health = NodeHealth::new(began);
    let now = began + GIVEN_UP_AFTER;
    assert!(health.news(now).strangers);
    (health, now)
}

#[test]
fn a_node_is_lost_and_then_given_up_when_it_is_long_unready() {
    let (mut health, t) = health();
    health.apply("a", true, t);
    assert_eq!(health.of("a", t), Health::Ready);
    health.apply("a", false, t);
    health.apply("a", false, t + seconds(10));
    assert_eq!(health.of("a", t), Health::Unready);
    assert_eq!(health.of("a", t + seconds(39)), Health::Unready);
    assert_eq!(health.of("a", t + LOST_AFTER), Health::Lost);
    assert_eq!(health.of("a", t + seconds(59)), Health::Lost);
    assert_eq!(health.of("a", t + GIVEN_UP_AFTER), Health::GivenUp);
    health.apply("a", true, t + seconds(70));
    assert_eq!(health.of("a", t + seconds(70)), Health::Ready);
}

#[test]
fn a_node_that_is_down_when_we_start_is_news_when_it_is_lost_and_when_it_is_given_up() {
    let t = Instant::now();
    let mut health = NodeHealth::new(t);
    health.apply("down", false, t);
    health.apply("up", true, t);
    assert_eq!(health.news(t).nodes, news(&["down"]));
    assert_eq!(health.news(t + seconds(1)).nodes, news(&[]));
    assert_eq!(health.next_news(t), Some(t + LOST_AFTER));
    assert_eq!(health.news(t + LOST_AFTER).nodes, news(&["down"]));
    assert_eq!(health.next_news(t + LOST_AFTER), Some(t + GIVEN_UP_AFTER));
    assert_eq!(health.news(t + GIVEN_UP_AFTER).nodes, news(&["down"]));
    assert_eq!(health.next_news(t + GIVEN_UP_AFTER), None);
    health.apply("down", true, t + seconds(90));
    assert_eq!(health.news(t + seconds(90)).nodes, news(&["down"]));
}

#[test]
fn while_most_nodes_are_down_none_is_lost_and_when_some_are_back_the_others_are_news() {
    let (mut health, t) = health();
    let nodes = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    for (i, node) in nodes.iter().enumerate() {
        health.apply(node, i >= 6, t);
    }
    assert_eq!(health.news(t).nodes.len(), 6);
    let later = t + seconds(100);
    assert_eq!(health.of("a", later), Health::Unready);
    assert_eq!(health.next_news(t), None, "time alone changes nothing");
    assert_eq!(health.news(later).nodes, news(&[]));
    for node in ["c", "d", "e", "f"] {
        health.apply(node, true, later);
    }
    // All nodes are reported: those that are ready again, and those that count as lost now.
    let told = health.news(later).nodes;
    assert_eq!(told, news(&["a", "b", "c", "d", "e", "f"]));
    assert_eq!(health.of("a", later), Health::GivenUp);
}

#[test]
fn a_deleted_node_is_lost_at_once_and_given_up_as_late_as_any() {
    let (mut health, t) = health();
    health.apply("a", true, t);
    health.delete("a", t);
    assert_eq!(health.of("a", t), Health::Lost);
    assert_eq!(health.of("a", t + seconds(59)), Health::Lost);
    assert_eq!(health.next_news(t + LOST_AFTER), Some(t + GIVEN_UP_AFTER));
    assert_eq!(health.news(t).nodes, news(&["a"]));
    // The node registers again in time: no pod was deleted by force.
    let mut back = NodeHealth::new(t);
    back.apply("a", true, t);
    back.delete("a", t);
    back.apply("a", true, t + seconds(5));
    assert_eq!(back.of("a", t + seconds(90)), Health::Ready);
    // The node does not register again: it is reported once more, and forgotten.
    assert!(health.knows("a"));
    assert_eq!(health.news(t + GIVEN_UP_AFTER).nodes, news(&["a"]));
    assert!(!health.knows("a"));
    assert_eq!(health.of("a", t + GIVEN_UP_AFTER), Health::GivenUp);
    assert_eq!(health.news(t + seconds(90)), News::default());
    assert_eq!(health.next_news(t + GIVEN_UP_AFTER), None);
}

#[test]
fn a_node_that_we_never_saw_is_given_up_a_while_after_we_began() {
    let t = Instant::now();
    let mut health = NodeHealth::new(t);
    assert_eq!(health.of("never-seen", t), Health::Lost);
    assert!(!health.news(t).strangers);
    assert_eq!(health.next_news(t), Some(t + GIVEN_UP_AFTER));
    assert_eq!(health.of("never-seen", t + GIVEN_UP_AFTER), Health::GivenUp);
    assert!(health.news(t + GIVEN_UP_AFTER).strangers);
    assert!(!health.news(t + seconds(61)).strangers, "told once");
}

#[test]
fn nodes_that_were_deleted_are_not_down() {
    let (mut health, t) = health();
    for node in ["a", "b", "c", "d", "e"] {
        health.apply(node, true, t);
    }
    for node in ["a", "b", "c"] {
        health.delete(node, t);
    }
    health.apply("d", false, t);
    assert_eq!(health.of("d", t + LOST_AFTER), Health::Lost);
}

/// The counts match a recount after any sequence of events.
#[test]
fn the_counts_are_those_of_a_recount() {
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
                health.news(t);
            }
            kind => {
                health.apply(&node, kind % 2 == 0, t);
            }
        }
        t += seconds(u64::from((random >> 24) % 10));
        let states = || health.nodes.values().copied();
        let down = states().filter(|n| n.is_down()).count();
        let there = states().filter(|n| n.is_there()).count();
        assert_eq!((health.down, health.there), (down, there));
        cut_off += usize::from(health.is_cut_off());
    }
    assert!(cut_off > 100 && cut_off < 4900, "{cut_off}");
}
