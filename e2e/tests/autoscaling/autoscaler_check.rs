//! The condition of a flavor that shows whether the settings of its autoscaler suit gangs.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;
use trellis_api::ResourceFlavor;
use trellis_e2e::karpenter::GPU_INSTANCE;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::growing_site::GrowingSite;
use crate::ordering_site::{OrderingOptions, OrderingSite};
use crate::{operator_program, shared_control_plane};

/// Waits until the flavor has the condition with this status and a part of this message.
pub async fn wait_for_condition(site: &OrderingSite, status: &str, part: &str) {
    let flavors: Api<ResourceFlavor> = Api::all(site.client());
    eventually(SOON, || async {
        let flavor = flavors.get(site.name()).await?;
        let conditions = flavor.status.iter().flat_map(|s| &s.conditions);
        let mut conditions = conditions.filter(|c| c.type_ == "AutoscalerSuitable");
        let condition = conditions.next();
        let is_met = condition.is_some_and(|c| c.status == status && c.message.contains(part));
        ensure!(is_met, "{:?}", flavor.status);
        Ok(())
    })
    .await
    .unwrap();
}

/// Runs `trellis nodes --check`. Returns the row of the site's flavor.
async fn check_nodes(site: &OrderingSite) -> Value {
    let kubeconfig = shared_control_plane().await.kubeconfig();
    let output = Command::new(operator_program())
        .args(["nodes", "--check", "--output=json"])
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    let row = rows.iter().find(|row| row["flavor"] == site.name());
    row.unwrap_or_else(|| panic!("{text}")).clone()
}

#[tokio::test]
async fn condition_follows_the_node_pool() {
    let site = GrowingSite::new("pool", OrderingOptions::default(), |pool| {
        pool.consolidate_after("10s").limit("nvidia.com/gpu", "512")
    })
    .await;
    wait_for_condition(&site, "False", "has consolidateAfter 10s").await;
    let row = check_nodes(&site).await;
    assert_eq!(row["suitable"], false, "{row}");
    assert_eq!(row["messages"].as_array().unwrap().len(), 1, "{row}");

    let consolidated = json!({"disruption": {"consolidateAfter": "1m"}});
    site.pool.patch(&consolidated).await.unwrap();
    wait_for_condition(&site, "True", "").await;
    let row = check_nodes(&site).await;
    assert_eq!(row["suitable"], true, "{row}");

    let grace = json!({"template": {"spec": {"terminationGracePeriod": "1h"}}});
    site.pool.patch(&grace).await.unwrap();
    wait_for_condition(&site, "False", "has terminationGracePeriod 1h").await;
}

#[tokio::test]
async fn new_node_with_an_unlisted_taint_is_named() {
    const LISTED: &str = "test.trellis.dev/starting";
    const UNLISTED: &str = "test.trellis.dev/network";
    let site = GrowingSite::new("taints", OrderingOptions::default(), |pool| {
        pool.startup_taint(LISTED, "true", "NoSchedule")
            .consolidate_after("1m")
    })
    .await;
    site.submit_gang("train", 1).await;
    let nodes = site.pool.wait_for_registered_nodes(1).await.unwrap();
    wait_for_condition(&site, "True", "").await;
    let node = &nodes.names()[0];
    nodes.taint(node, UNLISTED, "", "NoSchedule").await.unwrap();
    let named = format!("{UNLISTED}:NoSchedule\" of new node \"{node}\"");
    wait_for_condition(&site, "False", &named).await;
}

/// The pod of a Cluster Autoscaler with these flags. It runs nowhere.
fn autoscaler_pod(flags: &[&str]) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "cluster-autoscaler-0"},
        "spec": {"schedulerName": "none", "containers": [{
            "name": "cluster-autoscaler", "image": "registry.example/cluster-autoscaler:1.36.1",
            "command": ["./cluster-autoscaler", "--v=4"], "args": flags,
        }]},
    }))
    .unwrap()
}

#[tokio::test]
async fn condition_follows_the_flags_of_cluster_autoscaler() {
    let control_plane = shared_control_plane().await;
    let class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    let method = json!({
        "by": "ProvisioningRequest",
        "provisioningRequest": {"provisioningClassName": class},
    });
    let site = OrderingSite::new(control_plane, "flags", OrderingOptions::default(), method).await;
    wait_for_condition(&site, "Unknown", "no Lease of Cluster Autoscaler").await;

    let lease = json!({
        "metadata": {"name": "cluster-autoscaler"},
        "spec": {"holderIdentity": "cluster-autoscaler-0_6e0a2c1b"},
    });
    let lease: Lease = serde_json::from_value(lease).unwrap();
    let leases: Api<Lease> = site.api();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    wait_for_condition(&site, "Unknown", "runs outside the cluster").await;

    let pods: Api<Pod> = site.api();
    for (flags, status, part) in [
        (&[][..], "False", "--enable-provisioning-requests"),
        (&["--enable-provisioning-requests"], "True", ""),
    ] {
        let pod = autoscaler_pod(flags);
        pods.create(&PostParams::default(), &pod).await.unwrap();
        wait_for_condition(&site, status, part).await;
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name_any(), &now).await.unwrap();
    }
}

/// Reads the first document of a file of `examples/queues`.
fn read_example(file: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/queues");
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents.into_iter().next().unwrap()
}

/// The test replaces the node class and the instance type, which Karpenter's kwok provider lacks.
#[tokio::test]
async fn node_pool_of_the_examples_suits_its_flavor() {
    let method = json!({"by": "Placeholders"});
    let control_plane = shared_control_plane().await;
    let site =
        OrderingSite::new(control_plane, "example", OrderingOptions::default(), method).await;
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": site.name()}, "spec": {}});
    let mut pool = read_example("nodepool.yaml");
    assert_eq!(pool["kind"], "NodePool");
    pool["metadata"]["name"] = json!(site.name());
    let node = &mut pool["spec"]["template"]["spec"];
    node["nodeClassRef"] =
        json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": site.name()});
    node["requirements"][0]["values"] = json!([GPU_INSTANCE]);
    let mut flavor = read_example("autoscaled.yaml");
    assert_eq!(flavor["kind"], "ResourceFlavor");
    flavor["metadata"]["name"] = json!(site.name());
    flavor["spec"]["nodeLabels"]["karpenter.sh/nodepool"] = json!(site.name());
    for object in [class, pool, flavor] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    wait_for_condition(&site, "True", "").await;
}
