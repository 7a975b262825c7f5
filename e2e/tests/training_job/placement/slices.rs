//! Slices of a task group: every so many consecutive pods are in one domain.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;

use crate::shared_control_plane;

fn variable(pod: &Pod, name: &str) -> Option<String> {
    let main = &pod.spec.as_ref()?.containers[0];
    let variable = main.env.iter().flatten().find(|var| var.name == name)?;
    variable.value.clone()
}

#[tokio::test]
async fn each_slice_runs_in_one_rack_and_knows_its_number() {
    let control_plane = shared_control_plane().await;
    // Racks of 2, 2 and 1 nodes.
    let nodes = NodeTemplate::new(5).gpus(8).racks(2);
    let site = TestSite::new(control_plane, "slices", nodes).await;
    let level = format!("{}-rack", site.name());
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": site.name()},
        "spec": {"levels": [{"name": level, "nodeLabel": "trellis.dev/rack"}]},
    });
    control_plane
        .apply_yaml(&topology.to_string())
        .await
        .unwrap();
    let mut job = site.job("moe", 4, 8);
    job["spec"]["taskGroups"][0]["topology"] = json!({"slices": [{"level": level, "pods": 2}]});
    site.create(job).await.unwrap();
    site.wait_for_phase("moe", JobPhase::Running).await;

    let nodes: Api<Node> = Api::all(control_plane.client());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let racks = nodes.items.iter().map(|node| {
        let rack = node.labels().get("trellis.dev/rack");
        (node.name_any(), rack.cloned().unwrap_or_default())
    });
    let racks: BTreeMap<String, String> = racks.collect();
    let pods = site.list_pods("moe").await;
    let by_name: BTreeMap<String, &Pod> = pods.iter().map(|p| (p.name_any(), p)).collect();
    let placed: Vec<(String, Option<String>)> = by_name
        .values()
        .map(|pod| {
            assert_eq!(variable(pod, "TRELLIS_SLICE_SIZE").as_deref(), Some("2"));
            let node = pod.spec.as_ref().unwrap().node_name.as_ref().unwrap();
            (racks[node].clone(), variable(pod, "TRELLIS_SLICE"))
        })
        .collect();
    let expected = [("r0", "0"), ("r0", "0"), ("r1", "1"), ("r1", "1")];
    let expected = expected.map(|(rack, slice)| (rack.to_owned(), Some(slice.to_owned())));
    assert_eq!(placed, expected);
}
