//! The order of ranks along the topology, in `status.placement`.

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, LevelPlacement};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;

use crate::shared_control_plane;

fn level(level: &str, domains: i64, crossings: i64, least: i64) -> LevelPlacement {
    LevelPlacement {
        level: level.to_owned(),
        domains,
        crossings,
        least_crossings: least,
    }
}

#[tokio::test]
async fn status_counts_how_often_a_ring_crosses_racks_also_after_a_pod_has_joined() {
    let control_plane = shared_control_plane().await;
    // Racks of 2, 2 and 1 nodes.
    let nodes = NodeTemplate::new(5)
        .gpus(8)
        .label("example.com/order-hall", "h")
        .label("example.com/order-rack", "r{i/2}");
    let site = TestSite::new(control_plane, "order", nodes).await;
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": site.name()},
        "spec": {"levels": [
            {"name": "order-hall", "nodeLabel": "example.com/order-hall"},
            {"name": "order-rack", "nodeLabel": "example.com/order-rack"},
        ]},
    });
    control_plane
        .apply_yaml(&topology.to_string())
        .await
        .unwrap();
    for at in [1, 3] {
        let mut filler = site.job(&format!("filler-{at}"), 1, 8);
        filler["spec"]["taskGroups"][0]["nodeSelector"]["kubernetes.io/hostname"] =
            site.nodes().names()[at].as_str().into();
        site.create(filler).await.unwrap();
        site.wait_for_phase(&format!("filler-{at}"), JobPhase::Running)
            .await;
    }
    let mut job = site.job("ring", 4, 8);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(3);
    site.create(job).await.unwrap();
    // One node of each rack is free. The job names no level.
    let runs = site.wait_for_phase("ring", JobPhase::Running).await;
    let levels = [level("order-hall", 1, 0, 0), level("order-rack", 3, 3, 3)];
    assert_eq!(runs.status.unwrap().placement, levels);

    // The last rank joins in the second rack, away from the ranks there.
    site.delete::<TrainingJob>("filler-3").await;
    let grown = site
        .wait_for_status("ring", |s| s.ready.as_deref() == Some("4/4"))
        .await;
    let levels = [level("order-hall", 1, 0, 0), level("order-rack", 3, 4, 3)];
    assert_eq!(grown.status.unwrap().placement, levels);

    for pod in 0..4 {
        site.end_pod(&format!("ring-worker-{pod}"), "0").await;
    }
    let ended = site.wait_for_phase("ring", JobPhase::Complete).await;
    assert_eq!(ended.status.unwrap().placement, []);
}
