//! Elastic groups of slices: each slice comes, goes and restarts as a whole.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::shared_control_plane;

/// Creates nodes with 8 GPUs in racks of 2, and a Topology with these racks.
async fn create_racks(name: &str, nodes: usize) -> TestSite {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(nodes).gpus(8).racks(2);
    let site = TestSite::new(control_plane, name, nodes).await;
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": site.name()},
        "spec": {"levels": [
            {"name": format!("{}-rack", site.name()), "nodeLabel": "trellis.dev/rack"},
        ]},
    });
    let topology = topology.to_string();
    control_plane.apply_yaml(&topology).await.unwrap();
    site
}

/// Returns a job of three replica groups of two pods with a node each. The gang is one group.
fn job_of_groups(site: &TestSite, name: &str) -> Value {
    let mut job = site.job(name, 6, 8);
    let group = &mut job["spec"]["taskGroups"][0];
    group["minReplicas"] = json!(2);
    let level = format!("{}-rack", site.name());
    group["topology"] = json!({"slices": [{"level": level, "pods": 2}]});
    job
}

async fn wait_for_ready_pods(site: &TestSite, job: &str, ready: &str) -> TrainingJob {
    site.wait_for_status(job, |s| {
        let reason = s.reason.map(|reason| reason.as_str());
        reason == Some("Running") && s.ready.as_deref() == Some(ready)
    })
    .await
}

/// Returns uid and node of each pod that is not being deleted.
async fn live_pods(site: &TestSite, job: &str) -> BTreeMap<String, (String, String)> {
    let pods = site.list_pods(job).await.into_iter();
    let live = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.map(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let uid = pod.uid().unwrap_or_default();
        (pod.name_any(), (uid, node.unwrap_or_default()))
    })
    .collect()
}

fn variable(pod: &Pod, name: &str) -> Option<String> {
    let main = &pod.spec.as_ref()?.containers[0];
    let variable = main.env.iter().flatten().find(|var| var.name == name)?;
    variable.value.clone()
}

#[tokio::test]
async fn group_that_cannot_return_is_replaced_in_the_gang_and_comes_back_elsewhere() {
    let site = create_racks("groups", 8).await;
    site.create(job_of_groups(&site, "ft")).await.unwrap();
    wait_for_ready_pods(&site, "ft", "6/6").await;
    let before = live_pods(&site, "ft").await;
    // Each group is a torchrun world of its own.
    let pod: Pod = site.api().get("ft-worker-3").await.unwrap();
    let expected = [
        ("PET_NNODES", "2".to_owned()),
        ("PET_NODE_RANK", "1".to_owned()),
        (
            "PET_MASTER_ADDR",
            format!("ft-worker-2.ft.{}.svc.cluster.local", site.name()),
        ),
        ("TRELLIS_SLICE", "1".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(variable(&pod, name), Some(value), "{name}");
    }
    // The gang is the first group. Its second pod cannot return to its node.
    let closed = &before["ft-worker-1"].1;
    site.nodes().cordon(closed).await.unwrap();
    site.delete::<Pod>("ft-worker-1").await;
    eventually(SOON, || async {
        let now = live_pods(&site, "ft").await;
        ensure!(now.len() == 6, "{now:?}");
        ensure!(now["ft-worker-1"].0 != before["ft-worker-1"].0, "{now:?}");
        Ok(())
    })
    .await
    .unwrap();
    let status = wait_for_ready_pods(&site, "ft", "6/6")
        .await
        .status
        .unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(0), Some(1)));
    let after = live_pods(&site, "ft").await;
    for index in 2..6 {
        let name = format!("ft-worker-{index}");
        assert_eq!(after[&name], before[&name], "{name}");
    }
    assert_ne!(after["ft-worker-0"].0, before["ft-worker-0"].0);
    let group: PodGroup = site.api().get("ft").await.unwrap();
    let plan = group.status.unwrap().plan.unwrap();
    assert_eq!(plan.elastic[0].slice_starts, [2]);
    let planned: BTreeSet<&str> = plan.assignments.iter().map(|a| a.node.as_str()).collect();
    let joined = [2, 3].map(|index| before[&format!("ft-worker-{index}")].1.as_str());
    assert_eq!(planned, joined.into());
    // The job ends when the gang and all other groups have ended.
    for pod in after.keys() {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("ft", JobPhase::Complete).await;
}

#[tokio::test]
async fn group_leaves_as_a_whole_for_another_job_and_returns() {
    let site = create_racks("whole", 6).await;
    site.create(job_of_groups(&site, "ft")).await.unwrap();
    wait_for_ready_pods(&site, "ft", "6/6").await;
    // One node suffices for the other job, but the whole replica group of two pods must leave.
    site.submit("other", 1, 8).await;
    site.wait_for_phase("other", JobPhase::Running).await;
    wait_for_ready_pods(&site, "ft", "4/6").await;
    site.wait_for_pod_count("ft", 4).await;
    site.delete::<TrainingJob>("other").await;
    let status = wait_for_ready_pods(&site, "ft", "6/6")
        .await
        .status
        .unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(0), Some(0)));
}

#[tokio::test]
async fn failed_and_deleted_pods_take_only_their_group_with_them() {
    let site = create_racks("alone", 6).await;
    site.create(job_of_groups(&site, "ft")).await.unwrap();
    wait_for_ready_pods(&site, "ft", "6/6").await;
    let before = live_pods(&site, "ft").await;
    site.end_pod("ft-worker-1", "1").await;
    site.delete::<Pod>("ft-worker-4").await;
    eventually(SOON, || async {
        let now = live_pods(&site, "ft").await;
        ensure!(now.len() == 6, "{now:?}");
        let is_new = |pod: &str| now[pod].0 != before[pod].0;
        let restarted = ["ft-worker-0", "ft-worker-1", "ft-worker-4", "ft-worker-5"];
        ensure!(restarted.into_iter().all(is_new), "{now:?}");
        Ok(())
    })
    .await
    .unwrap();
    let status = wait_for_ready_pods(&site, "ft", "6/6")
        .await
        .status
        .unwrap();
    // The deletion of surplus counts against nothing.
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(1), Some(0)));
    let after = live_pods(&site, "ft").await;
    for pod in ["ft-worker-2", "ft-worker-3"] {
        assert_eq!(after[pod], before[pod]);
    }
    assert_eq!(after["ft-worker-1"].1, before["ft-worker-1"].1);
}
