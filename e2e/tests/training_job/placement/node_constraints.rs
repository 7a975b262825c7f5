//! Objects that exclude a gang from a node, other than a lack of capacity.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob, names};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, phase, reason};
use trellis_e2e::volumes;

use crate::{create_site, shared_control_plane};

/// Creates jobs like this one until one is not placed, because the operator may see a job before
/// the object that excludes it from the nodes.
pub(crate) async fn submit_until_pending(site: &TestSite, template: &Value) -> TrainingJob {
    for i in 0..20 {
        let name = format!("held-{i}");
        let mut job = template.clone();
        job["metadata"]["name"] = name.as_str().into();
        site.create(job).await.unwrap();
        let decided = |p: Option<JobPhase>| matches!(p, Some(JobPhase::Running | JobPhase::Queued));
        let job = site.wait_for_status(&name, |s| decided(s.phase)).await;
        if phase(&job) == Some(JobPhase::Queued) {
            return job;
        }
        site.delete::<TrainingJob>(&name).await;
        site.wait_for_pod_count(&name, 0).await;
    }
    panic!("every job was placed");
}

fn job_name(job: &TrainingJob) -> &str {
    job.metadata.name.as_deref().unwrap()
}

fn node_names(pods: &[Pod]) -> Vec<&str> {
    let nodes = pods.iter().map(|p| p.spec.as_ref().unwrap());
    nodes.map(|s| s.node_name.as_deref().unwrap()).collect()
}

#[tokio::test]
async fn gang_avoids_a_node_with_a_bad_gpu_condition_until_it_clears() {
    let site = create_site("badgpu", 1).await;
    let node = &site.nodes().names()[0];
    let set = |status| {
        site.nodes()
            .set_condition(node, "GpuMemWatch", status, "Dcgm")
    };
    set("True").await.unwrap();
    let job = submit_until_pending(&site, &site.job("", 1, 8)).await;
    assert_eq!(reason(&job), "NoMatchingNodes");
    let words = "1 with bad GPU condition GpuMemWatch";
    assert!(message(&job).contains(words), "{}", message(&job));
    set("False").await.unwrap();
    site.wait_for_phase(job_name(&job), JobPhase::Running).await;
}

#[tokio::test]
async fn quarantined_node_loses_its_gangs_and_gets_no_new_gang() {
    let site = create_site("quarantine", 1).await;
    let node = &site.nodes().names()[0];
    let label = |state| {
        site.nodes()
            .label(node, "dgxc.nvidia.com/nvsentinel-state", state)
    };
    site.submit("runs", 1, 4).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    // Cordoning a node does not stop its jobs.
    site.nodes().cordon(node).await.unwrap();
    let job = submit_until_pending(&site, &site.job("", 1, 1)).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    label(Some("quarantined")).await.unwrap();
    let stopped = site.wait_for_status("runs", |s| s.attempt == Some(2)).await;
    let status = stopped.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
    assert_eq!(status.last_failure.unwrap().reason, "NodeUnhealthy");
    let words = "1 with label \"dgxc.nvidia.com/nvsentinel-state=quarantined\"";
    site.wait_for_status("runs", |s| {
        s.phase == Some(JobPhase::Queued) && s.full_message().contains(words)
    })
    .await;
    label(None).await.unwrap();
    site.nodes().uncordon(node).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.wait_for_phase(job_name(&job), JobPhase::Running).await;
}

#[tokio::test]
async fn gang_waits_for_its_claim_and_follows_its_volume() {
    let control_plane = shared_control_plane().await;
    let site = create_site("claims", 4).await;
    let mut job = site.job("data", 2, 8);
    job["spec"]["taskGroups"][0]["mounts"] = json!([{"claimName": "disk", "path": "/data"}]);
    site.create(job).await.unwrap();
    let not_found = Reason::ClaimNotFound;
    let waiting = site
        .wait_for_phase_and_reason("data", JobPhase::Waiting, not_found)
        .await;
    assert!(message(&waiting).contains("spec.taskGroups[0].mounts[0].claimName"));
    let claim = volumes::claim_yaml(site.name(), "disk");
    control_plane.apply_yaml(&claim).await.unwrap();
    let not_bound = |s: &trellis_api::job::TrainingJobStatus| {
        s.reason.is_some_and(|r| r.as_str() == "ClaimNotBound")
    };
    site.wait_for_status("data", not_bound).await;
    assert!(site.list_pods("data").await.is_empty());
    // The nodes are neither the first by name nor those that packing would select.
    let reach = &site.nodes().names()[2..];
    let nodes = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": reach},
    ]});
    let volume = volumes::volume_yaml(site.name(), "disk", &nodes);
    control_plane.apply_yaml(&volume).await.unwrap();
    site.wait_for_phase("data", JobPhase::Running).await;
    let pods = site.wait_for_whole_gang("data", 2).await;
    let mut on = node_names(&pods);
    on.sort_unstable();
    assert_eq!(on, reach);
}

#[tokio::test]
async fn daemon_set_requests_are_reserved_on_dedicated_nodes() {
    let nodes = NodeTemplate::new(1)
        .gpus(8)
        .label(names::DEDICATED_NODE, names::DEDICATED_NODE_VALUE)
        .taint(
            names::DEDICATED_NODE,
            names::DEDICATED_NODE_VALUE,
            "NoSchedule",
        );
    let site = TestSite::new(shared_control_plane().await, "own", nodes).await;
    let labels = json!({"app": "exporter"});
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "exporter"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": site.nodes().names()[0]},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "95"}}}],
                },
            },
        },
    });
    let set: DaemonSet = serde_json::from_value(set).unwrap();
    let sets = site.api::<DaemonSet>();
    sets.create(&PostParams::default(), &set).await.unwrap();
    // The pod stays pending, because no default scheduler runs.
    let mut wide = site.job("", 1, 7);
    wide["spec"]["taskGroups"][0]["resources"]["limits"]["cpu"] = 8.into();
    let job = submit_until_pending(&site, &wide).await;
    assert_eq!(reason(&job), "ExceedsCluster", "{}", message(&job));
    assert!(message(&job).contains("cpu"), "{}", message(&job));
    // Jobs get the remaining capacity: they tolerate the taint of Trellis's own nodes.
    site.submit("small", 1, 1).await;
    site.wait_for_phase("small", JobPhase::Running).await;
    site.delete::<DaemonSet>("exporter").await;
    site.wait_for_phase(job_name(&job), JobPhase::Running).await;
}

#[tokio::test]
async fn gang_respects_anti_affinity_of_foreign_pods() {
    let site = create_site("apart", 2).await;
    let foreign = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "database"},
        "spec": {
            "nodeName": site.nodes().names()[0],
            "containers": [{"name": "c", "image": "i"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {names::GROUP: "worker"}},
            }]}},
        },
    });
    let pods = site.api::<Pod>();
    let foreign: Pod = serde_json::from_value(foreign).unwrap();
    pods.create(&PostParams::default(), &foreign).await.unwrap();
    let job = submit_until_pending(&site, &site.job("", 2, 8)).await;
    assert_eq!(reason(&job), "ExceedsCluster", "{}", message(&job));
    site.submit("one", 1, 8).await;
    site.wait_for_phase("one", JobPhase::Running).await;
    assert_eq!(
        node_names(&site.list_pods("one").await),
        [site.nodes().names()[1].as_str()]
    );
    site.delete::<TrainingJob>("one").await;
    site.wait_for_pod_count("one", 0).await;
    site.delete::<Pod>("database").await;
    site.wait_for_phase(job_name(&job), JobPhase::Running).await;
}
