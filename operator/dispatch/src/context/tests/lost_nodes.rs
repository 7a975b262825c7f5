//! Lost nodes, and the jobs that they requeue.

use trellis_cache::watch::{ABANDONED_AFTER, LOST_AFTER};

use super::*;

#[tokio::test(start_paused = true)]
async fn jobs_on_a_down_node_are_requeued_when_it_is_lost() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "down", &[]), ("a", "up", &[])]).await;
    case.node("n0", "Unknown");
    case.node("n1", "True");
    case.pod("down", "n0");
    case.pod("up", "n1");
    case.sync();
    case.requeued_jobs().await;
    assert!(!case.context.cache.is_lost("n0"));
    tokio::time::sleep(LOST_AFTER).await;
    assert!(case.context.cache.is_lost("n0"));
    assert_eq!(case.requeued_jobs().await, ["a/down"]);
    assert!(!case.context.cache.is_abandoned("n0"));
    tokio::time::sleep(ABANDONED_AFTER - LOST_AFTER).await;
    assert!(case.context.cache.is_abandoned("n0"));
    assert_eq!(case.requeued_jobs().await, ["a/down"]);
    tokio::time::sleep(ABANDONED_AFTER).await;
    assert!(case.requeued_jobs().await.is_empty());
    assert!(!case.context.cache.is_lost("n1"));
}

#[tokio::test(start_paused = true)]
async fn jobs_on_lost_nodes_are_requeued_when_most_nodes_return() {
    let case = ContextFixture::new();
    for i in 0..10 {
        case.node(&format!("n{i}"), "True");
    }
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.requeued_jobs().await;
    for i in 0..6 {
        case.node(&format!("n{i}"), "Unknown");
    }
    tokio::time::sleep(2 * ABANDONED_AFTER).await;
    case.requeued_jobs().await;
    assert!(
        !case.context.cache.is_lost("n0"),
        "most nodes are unknown, so the operator is cut off"
    );
    for i in 2..6 {
        case.node(&format!("n{i}"), "True");
    }
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(case.context.cache.is_lost("n0"));
}

#[tokio::test(start_paused = true)]
async fn unknown_node_is_abandoned_after_the_timeout() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "unknown");
    case.sync();
    case.requeued_jobs().await;
    assert!(case.context.cache.is_lost("unknown"));
    assert!(!case.context.cache.is_abandoned("unknown"));
    tokio::time::sleep(ABANDONED_AFTER).await;
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(case.context.cache.is_abandoned("unknown"));
}

#[tokio::test(start_paused = true)]
async fn jobs_on_a_deleted_node_are_requeued_immediately() {
    let case = ContextFixture::new();
    case.node("n0", "True");
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.requeued_jobs().await;
    Sink::<SlimNode>::delete(case.sink.as_ref(), &Key::new("", "n0"), "n0");
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(case.context.cache.is_lost("n0") && !case.context.cache.is_abandoned("n0"));
    tokio::time::sleep(ABANDONED_AFTER).await;
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(case.context.cache.is_abandoned("n0"));
}

/// The node gets no new pods, but nothing shows that it is down.
#[tokio::test(start_paused = true)]
async fn undecodable_node_or_pod_is_not_lost() {
    let case = ContextFixture::new();
    case.node("known", "True");
    case.jobs(&[("a", "j", &[]), ("a", "k", &[])]).await;
    case.pod("j", "known");
    case.pod("k", "unknown");
    let undecodable = |uid: &str| Undecodable {
        uid: uid.to_owned(),
        generation: None,
        error: String::new(),
    };
    let sink = case.sink.as_ref();
    for node in ["known", "unknown"] {
        Sink::<SlimNode>::undecodable(sink, &Key::new("", node), undecodable(node));
        assert!(case.context.cache.engine_node(node).is_none());
    }
    let pod = Key::new("a", "j-worker-0");
    Sink::<SlimPod>::undecodable(sink, &pod, undecodable("pod-of-j"));
    case.sync();
    tokio::time::sleep(2 * ABANDONED_AFTER).await;
    assert!(!case.context.cache.is_lost("known") && !case.context.cache.is_lost("unknown"));
    assert!(case.context.cache.pods.contains(&pod));
    // Once the node decodes again, it is unchanged.
    case.node("known", "True");
    assert!(case.context.cache.engine_node("known").is_some());
}
