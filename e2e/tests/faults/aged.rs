//! A watch that stays broken: nothing is placed on what it showed long ago.

use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::message;
use trellis_e2e::proxy::{Fault, Request};

use super::scene::Scene;

/// The age from which the operator does not use the last known state of a kind.
const UNSEEN: Duration = Duration::from_secs(180);

fn nodes(request: &Request) -> bool {
    request.resource == "nodes"
}

/// The right to list and watch nodes is lost, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_placed_on_nodes_that_nobody_has_been_shown_for_minutes() {
    let mut seen = Scene::new("aged", 2).await;
    seen.site.submit("runs", 1, 8).await;
    seen.site.reaches("runs", JobPhase::Running).await;
    let forbidden = |request: &Request| {
        if nodes(request) {
            Fault::Status(403, None)
        } else {
            Fault::Pass
        }
    };
    seen.proxy.on_request(forbidden);
    seen.proxy.cut_watches(nodes);
    tokio::time::sleep(UNSEEN + Duration::from_secs(5)).await;
    seen.site.submit("waits", 1, 8).await;
    let waits = seen
        .site
        .becomes("waits", |s| s.reason == Some(Reason::CacheNotReady))
        .await;
    assert!(message(&waits).contains("nodes"), "{}", message(&waits));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(seen.site.pods("waits").await.len(), 0);
    let log = seen.operator.log().unwrap();
    assert!(log.contains("its watch is broken"), "{log}");
    // The broken watch does not affect running jobs.
    seen.site.whole("runs", 1).await;
    seen.proxy.heal();
    seen.site.reaches("waits", JobPhase::Running).await;
    seen.operator.assert_runs();
}
