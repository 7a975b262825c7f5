//! New nodes that come one after the other, or that cannot hold pods at first.

use std::time::Duration;

use trellis_api::Reason;
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::karpenter::NodePoolTemplate;

use crate::growing_site::GrowingSite;
use crate::ordering_site::OrderingOptions;
use crate::{SETTLED, shared_control_plane};

/// The pools let Karpenter remove empty nodes at once. It takes about 30 seconds for that, and the
/// last nodes come after 45 seconds.
#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn nodes_that_come_first_are_kept_until_the_last_have_come() {
    let site = GrowingSite::new("stagger", OrderingOptions::default(), |pool| {
        pool.limit("nvidia.com/gpu", "16")
    })
    .await;
    let late = NodePoolTemplate::new(&format!("{}-late", site.name()))
        .label(SCOPE_LABEL, site.name())
        .limit("nvidia.com/gpu", "16")
        .registration_delay("45s")
        .create(shared_control_plane().await)
        .await
        .unwrap();
    site.submit_gang("train", 4).await;
    site.pool.wait_for_nodes(2).await.unwrap();
    site.wait_until_running("train").await;
    site.wait_for_whole_gang("train", 4).await;
    tokio::time::sleep(SETTLED).await;
    for pool in [&site.pool, &late] {
        assert_eq!(pool.claims().len(), 2);
        assert_eq!(pool.lost_claims().len(), 0, "{:?}", pool.claims());
    }
}

#[tokio::test]
async fn gang_starts_only_once_its_nodes_have_devices_and_no_startup_taint() {
    const TAINT: &str = "test.trellis.dev/starting";
    // Once both nodes exist, the flavor has all nodes that it may have.
    let options = OrderingOptions {
        max_nodes: 2,
        ..OrderingOptions::default()
    };
    let site = GrowingSite::new("bare", options, |pool| {
        pool.startup_taint(TAINT, "true", "NoSchedule")
    })
    .await;
    site.submit_gang("train", 2).await;
    let nodes = site.pool.wait_for_registered_nodes(2).await.unwrap();
    let [bare, whole] = nodes.names() else {
        panic!("{nodes:?}");
    };
    check_waiting(&site, 0).await;

    nodes
        .set_allocatable(bare, "nvidia.com/gpu", "0")
        .await
        .unwrap();
    for node in [bare, whole] {
        nodes.untaint(node, TAINT).await.unwrap();
    }
    check_waiting(&site, 1).await;

    nodes
        .set_allocatable(bare, "nvidia.com/gpu", "8")
        .await
        .unwrap();
    site.wait_until_running("train").await;
    site.wait_for_whole_gang("train", 2).await;
    assert_eq!(site.pool.claims().len(), 2);
}

/// Checks that the job of two pods waits, and that its status counts this many ready nodes.
async fn check_waiting(site: &GrowingSite, ready: usize) {
    let verb = if ready == 1 { "is" } else { "are" };
    let count = format!("{ready} {verb} ready");
    site.wait_for_status("train", |status| {
        let message = status.message.as_deref().unwrap_or_default();
        status.reason == Some(Reason::Provisioning) && message.contains(&count)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(site.list_pods("train").await.is_empty());
    assert_eq!(site.pool.claims().len(), 2);
}

/// Karpenter removes the node of a job that has ended, and keeps the nodes of the gang that runs.
#[tokio::test]
async fn running_gang_survives_the_consolidation_of_its_pool() {
    let site = GrowingSite::new("consolid", OrderingOptions::default(), |pool| pool).await;
    site.submit_gang("long", 2).await;
    site.wait_until_running("long").await;
    site.submit_gang("short", 1).await;
    site.wait_until_running("short").await;
    site.end_pod("short-worker-0", "0").await;
    site.wait_for_lost_claims(1).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 3);
    assert_eq!(site.pool.lost_claims().len(), 1, "{:?}", site.pool.claims());
    let job = site.wait_until_running("long").await;
    let status = job.status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(1), Some(0)));
}
