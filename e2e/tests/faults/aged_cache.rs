//! A watch that stays broken: the operator places no gang on outdated data. The test waits for three
//! minutes. Tests start in the order of their names, so that others run meanwhile.

use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::proxy::{ProxyFault, Request};
use trellis_e2e::site::jobs::message;

use super::fixtures::FaultFixture;

/// The age from which the operator does not use the last known state of a kind.
const MAX_CACHE_AGE: Duration = Duration::from_secs(180);

fn is_node_request(request: &Request) -> bool {
    request.resource == "nodes"
}

/// The right to list and watch nodes is removed and granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: .ci/run --all runs it"]
async fn gang_is_not_placed_while_the_node_cache_is_stale() {
    let mut fixture = FaultFixture::new("aged", 2).await;
    fixture.site.submit("runs", 1, 8).await;
    fixture.site.wait_for_phase("runs", JobPhase::Running).await;
    let forbidden = |request: &Request| {
        if is_node_request(request) {
            ProxyFault::Status(403, None)
        } else {
            ProxyFault::Pass
        }
    };
    fixture.proxy.on_request(forbidden);
    fixture.proxy.cut_watches(is_node_request);
    tokio::time::sleep(MAX_CACHE_AGE + Duration::from_secs(5)).await;
    fixture.site.submit("waits", 1, 8).await;
    let pending = fixture
        .site
        .wait_for_status("waits", |s| s.reason == Some(Reason::CacheNotReady))
        .await;
    assert!(message(&pending).contains("nodes"), "{}", message(&pending));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fixture.site.list_pods("waits").await.len(), 0);
    let log = fixture.operator.read_log().unwrap();
    assert!(log.contains("its watch is broken"), "{log}");
    // The broken watch does not affect running jobs.
    fixture.site.wait_for_whole_gang("runs", 1).await;
    fixture.proxy.remove_faults();
    fixture
        .site
        .wait_for_phase("waits", JobPhase::Running)
        .await;
    fixture.operator.assert_runs();
}
