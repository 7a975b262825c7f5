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

/// Creates racks of 2, 2 and 1 nodes, and a Topology with them. Returns the name of its level.
async fn create_racks(name: &str) -> (TestSite, String) {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(5).gpus(8).racks(2);
    let site = TestSite::new(control_plane, name, nodes).await;
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
    (site, level)
}

/// Returns the rack and the slice of each pod, by name.
async fn list_slices(site: &TestSite, job: &str) -> BTreeMap<String, (String, String)> {
    let control_plane = shared_control_plane().await;
    let nodes: Api<Node> = Api::all(control_plane.client());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let racks = nodes.items.iter().map(|node| {
        let rack = node.labels().get("trellis.dev/rack");
        (node.name_any(), rack.cloned().unwrap_or_default())
    });
    let racks: BTreeMap<String, String> = racks.collect();
    let pods = site.list_pods(job).await.into_iter();
    let slices = pods.map(|pod| {
        assert_eq!(variable(&pod, "TRELLIS_SLICE_SIZE").as_deref(), Some("2"));
        let node = pod.spec.as_ref().unwrap().node_name.as_ref().unwrap();
        let slice = variable(&pod, "TRELLIS_SLICE").unwrap();
        (pod.name_any(), (racks[node].clone(), slice))
    });
    slices.collect()
}

fn expected(pods: [(&str, &str, &str); 4]) -> BTreeMap<String, (String, String)> {
    let pods = pods.map(|(pod, rack, slice)| (pod.to_owned(), (rack.to_owned(), slice.to_owned())));
    pods.into()
}

#[tokio::test]
async fn each_slice_runs_in_one_rack_and_knows_its_number() {
    let (site, level) = create_racks("slices").await;
    let mut job = site.job("moe", 4, 8);
    job["spec"]["taskGroups"][0]["topology"] = json!({"slices": [{"level": level, "pods": 2}]});
    site.create(job).await.unwrap();
    site.wait_for_phase("moe", JobPhase::Running).await;
    assert_eq!(
        list_slices(&site, "moe").await,
        expected([
            ("moe-worker-0", "r0", "0"),
            ("moe-worker-1", "r0", "0"),
            ("moe-worker-2", "r1", "1"),
            ("moe-worker-3", "r1", "1"),
        ])
    );
}

#[tokio::test]
async fn slices_of_a_job_count_the_pods_of_all_groups_by_rank() {
    let (site, level) = create_racks("rank-slices").await;
    let mut job = site.job("ranks", 3, 8);
    job["spec"]["framework"] = json!("PyTorch");
    job["spec"]["topology"] = json!({"slices": [{"level": level, "pods": 2}]});
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut master = groups[0].clone();
    master["name"] = json!("master");
    master["role"] = json!("Coordinator");
    master["replicas"] = json!(1);
    groups.push(master);
    site.create(job).await.unwrap();
    site.wait_for_phase("ranks", JobPhase::Running).await;
    assert_eq!(
        list_slices(&site, "ranks").await,
        expected([
            ("ranks-master-0", "r0", "0"),
            ("ranks-worker-0", "r0", "0"),
            ("ranks-worker-1", "r1", "1"),
            ("ranks-worker-2", "r1", "1"),
        ])
    );
}
