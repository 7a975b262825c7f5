//! Lost nodes, and the jobs that they wake.

use trellis_cache::watch::{GIVEN_UP_AFTER, LOST_AFTER};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_when_we_started_is_told_of_when_it_is_lost_and_when_it_is_given_up() {
    let case = Case::new();
    case.jobs(&[("a", "down", &[]), ("a", "up", &[])]).await;
    case.node("n0", "Unknown");
    case.node("n1", "True");
    case.pod("down", "n0");
    case.pod("up", "n1");
    case.sync();
    case.looked_at().await;
    assert!(!case.context.cache.is_lost("n0"));
    tokio::time::sleep(LOST_AFTER).await;
    assert!(case.context.cache.is_lost("n0"));
    assert_eq!(case.looked_at().await, ["a/down"]);
    assert!(!case.context.cache.is_given_up("n0"));
    tokio::time::sleep(GIVEN_UP_AFTER - LOST_AFTER).await;
    assert!(case.context.cache.is_given_up("n0"));
    assert_eq!(case.looked_at().await, ["a/down"]);
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert!(case.looked_at().await.is_empty());
    assert!(!case.context.cache.is_lost("n1"));
}

#[tokio::test(start_paused = true)]
async fn when_most_nodes_are_back_the_jobs_on_the_others_are_looked_at() {
    let case = Case::new();
    for i in 0..10 {
        case.node(&format!("n{i}"), "True");
    }
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.looked_at().await;
    for i in 0..6 {
        case.node(&format!("n{i}"), "Unknown");
    }
    tokio::time::sleep(2 * GIVEN_UP_AFTER).await;
    case.looked_at().await;
    assert!(!case.context.cache.is_lost("n0"), "we are cut off");
    for i in 2..6 {
        case.node(&format!("n{i}"), "True");
    }
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.context.cache.is_lost("n0"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_we_never_saw_are_given_up_in_the_end() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "gone-before-us");
    case.sync();
    case.looked_at().await;
    assert!(case.context.cache.is_lost("gone-before-us"));
    assert!(!case.context.cache.is_given_up("gone-before-us"));
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.context.cache.is_given_up("gone-before-us"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_told_of_at_once_and_when_it_is_given_up() {
    let case = Case::new();
    case.node("n0", "True");
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.looked_at().await;
    Sink::<SlimNode>::delete(case.watched.as_ref(), &Key::new("", "n0"), "n0");
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.context.cache.is_lost("n0") && !case.context.cache.is_given_up("n0"));
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.context.cache.is_given_up("n0"));
}

/// The node gets no new pods, but nothing says that it is down.
#[tokio::test(start_paused = true)]
async fn pods_live_on_though_they_or_their_node_cannot_be_read() {
    let case = Case::new();
    case.node("known", "True");
    case.jobs(&[("a", "j", &[]), ("a", "k", &[])]).await;
    case.pod("j", "known");
    case.pod("k", "unknown");
    let broken = |uid: &str| Undecodable {
        uid: uid.to_owned(),
        generation: None,
        error: String::new(),
    };
    let watched = case.watched.as_ref();
    for node in ["known", "unknown"] {
        Sink::<SlimNode>::undecodable(watched, &Key::new("", node), broken(node));
        assert!(case.context.cache.engine_node(node).is_none());
    }
    let pod = Key::new("a", "j-worker-0");
    Sink::<SlimPod>::undecodable(watched, &pod, broken("pod-of-j"));
    case.sync();
    tokio::time::sleep(2 * GIVEN_UP_AFTER).await;
    assert!(!case.context.cache.is_lost("known") && !case.context.cache.is_lost("unknown"));
    assert!(case.context.cache.pods.knows(&pod));
    // Read again, it is what it was.
    case.node("known", "True");
    assert!(case.context.cache.engine_node("known").is_some());
}
