//! Nodes for placeholders.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use trellis_e2e::karpenter::NodeClaimRecord;
use trellis_e2e::wait::eventually;

use crate::fixtures::{AutoscaledSite, SOON};
use crate::shared_control_plane;

#[tokio::test]
async fn karpenter_buys_a_node_for_each_placeholder_once_it_is_marked_unschedulable() {
    let control_plane = shared_control_plane().await;
    let site =
        AutoscaledSite::new(control_plane, "buy", |pool| pool.registration_delay("1s")).await;
    site.create_placeholders(3, 600).await;

    // Karpenter serves all pods in one loop: a later purchase shows that it has seen these.
    let later = AutoscaledSite::new(control_plane, "later", |pool| pool).await;
    later.create_placeholders(1, 600).await;
    later.mark_unschedulable().await;
    later.pool.wait_for_claims(1).await.unwrap();
    assert_eq!(site.pool.claims().len(), 0);

    site.mark_unschedulable().await;
    let nodes = site.pool.wait_for_nodes(3).await.unwrap();
    for name in nodes.names() {
        let status = nodes.get(name).await.unwrap().status.unwrap();
        assert_eq!(status.allocatable.unwrap()["nvidia.com/gpu"].0, "8");
    }
    assert_eq!(site.pool.claims().len(), 3);
}

#[tokio::test]
async fn placeholders_beyond_the_limit_of_a_pool_get_no_node() {
    let site = AutoscaledSite::new(shared_control_plane().await, "limit", |pool| {
        pool.limit("nvidia.com/gpu", "16")
    })
    .await;
    site.create_placeholders(3, 600).await;
    site.mark_unschedulable().await;
    site.pool.wait_for_nodes(2).await.unwrap();
    let events: Api<Event> = site.api();
    eventually(SOON, || async {
        let events = events.list(&ListParams::default()).await?;
        let messages: Vec<_> = events.iter().filter_map(|e| e.message.as_deref()).collect();
        let is_limit = |message: &&str| message.contains("exceed limits for nodepool");
        ensure!(messages.iter().any(is_limit), "{messages:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(site.pool.claims().len(), 2);
}

/// Karpenter initializes a node once it has its devices and no startup taint. While the node is
/// uninitialized, Karpenter buys no other node for the placeholder.
#[tokio::test]
async fn node_without_devices_is_not_initialized_and_buys_no_second_node() {
    const TAINT: &str = "test.trellis.dev/starting";
    let site = AutoscaledSite::new(shared_control_plane().await, "devices", |pool| {
        pool.startup_taint(TAINT, "true", "NoSchedule")
    })
    .await;
    site.create_placeholders(1, 600).await;
    site.mark_unschedulable().await;
    let nodes = site.pool.wait_for_registered_nodes(1).await.unwrap();
    let node = &nodes.names()[0];
    wait_until_pending(&site, "StartupTaintsExist").await;
    nodes
        .set_allocatable(node, "nvidia.com/gpu", "0")
        .await
        .unwrap();
    nodes.untaint(node, TAINT).await.unwrap();
    wait_until_pending(&site, "ResourceNotRegistered").await;
    nodes
        .set_allocatable(node, "nvidia.com/gpu", "8")
        .await
        .unwrap();
    site.pool.wait_for_nodes(1).await.unwrap();
    assert_eq!(site.pool.claims().len(), 1);
}

/// Waits until no node of the site is initialized, for this reason.
async fn wait_until_pending(site: &AutoscaledSite, reason: &str) {
    let is_pending =
        |claim: &NodeClaimRecord| claim.pending_initialization.as_deref() == Some(reason);
    site.pool.wait_until_all(is_pending).await.unwrap();
}
