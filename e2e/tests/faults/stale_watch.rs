//! A watch that stays broken: the operator places no gang on outdated data.

use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::message;
use trellis_e2e::proxy::{ProxyFault, Request};

use super::fixtures::FaultFixture;

/// The age from which the operator does not use the last known state of a kind.
const MAX_CACHE_AGE: Duration = Duration::from_secs(180);

fn is_node_request(request: &Request) -> bool {
    request.resource == "nodes"
}

/// The right to list and watch nodes is removed and granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gang_is_not_placed_while_the_node_cache_is_stale() {
    let mut seen = FaultFixture::new("aged", 2).await;
    seen.site.submit("runs", 1, 8).await;
    seen.site.wait_for_phase("runs", JobPhase::Running).await;
    let forbidden = |request: &Request| {
        if is_node_request(request) {
            ProxyFault::Status(403, None)
        } else {
            ProxyFault::Pass
        }
    };
    seen.proxy.on_request(forbidden);
    seen.proxy.cut_watches(is_node_request);
    tokio::time::sleep(MAX_CACHE_AGE + Duration::from_secs(5)).await;
    seen.site.submit("waits", 1, 8).await;
    let waits = seen
        .site
        .wait_for_status("waits", |s| s.reason == Some(Reason::CacheNotReady))
        .await;
    assert!(message(&waits).contains("nodes"), "{}", message(&waits));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(seen.site.list_pods("waits").await.len(), 0);
    let log = seen.operator.read_log().unwrap();
    assert!(log.contains("its watch is broken"), "{log}");
    // The broken watch does not affect running jobs.
    seen.site.wait_for_whole_gang("runs", 1).await;
    seen.proxy.remove_faults();
    seen.site.wait_for_phase("waits", JobPhase::Running).await;
    seen.operator.assert_runs();
}
