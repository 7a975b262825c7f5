//! Nodes between their purchase and the start of a gang.

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_e2e::karpenter::NodeClaimRecord;
use trellis_e2e::wait::eventually;

use crate::fixtures::{AutoscaledSite, SOON};
use crate::shared_control_plane;

/// All pools let Karpenter remove empty nodes at once. It does so only in the pool that has neither
/// placeholders nor a gang.
#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn placeholders_hold_empty_nodes_until_a_gang_takes_them_over() {
    let control_plane = shared_control_plane().await;
    let create = |prefix| AutoscaledSite::new(control_plane, prefix, |pool| pool);
    let (held, taken, empty) = tokio::join!(create("held"), create("taken"), create("empty"));
    let (_, nodes, _) = tokio::join!(held.buy_nodes(2), taken.buy_nodes(2), empty.buy_nodes(2));

    empty.withdraw_placeholders().await;
    taken.withdraw_placeholders().await;
    taken.bind_gang(&nodes).await;
    eventually(SOON, || async {
        let running = taken.running_pods().await;
        ensure!(running == 2, "{running} pods run");
        Ok(())
    })
    .await
    .unwrap();

    let is_removed =
        |claim: &NodeClaimRecord| claim.is_deleted && claim.disruption.as_deref() == Some("Empty");
    empty.pool.wait_until_all(is_removed).await.unwrap();
    for site in [&held, &taken] {
        assert_eq!(site.pool.claims().len(), 2);
        assert_eq!(site.pool.lost_claims().len(), 0, "{:?}", site.pool.claims());
    }
    assert_eq!(taken.running_pods().await, 2);
}

/// The finalizer of the Job controller keeps deleted placeholders as long as that controller is
/// down. A finalizer that the test sets simulates this.
#[tokio::test]
async fn terminating_placeholder_causes_a_second_purchase_beside_the_gang() {
    let site = AutoscaledSite::new(shared_control_plane().await, "twice", |pool| pool).await;
    let nodes = site.buy_nodes(1).await;
    let placeholder = site.pod_names().await.remove(0);
    let set_finalizers = async |finalizers: &[&str]| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let params = PatchParams::default();
        site.pods()
            .patch(&placeholder, &params, &patch)
            .await
            .unwrap();
    };
    set_finalizers(&["test.trellis.dev/job-controller"]).await;
    site.delete_placeholders().await;
    site.bind_gang(&nodes).await;
    site.pool.wait_for_claims(2).await.unwrap();
    set_finalizers(&[]).await;
}
