//! Pods that are created while other pods of their attempt run.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::names;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::kubelet;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::wait::wait_for;

use crate::queues::preemption::{create_ordered_queue, submit_to_queue};
use crate::{create_site, shared_control_plane};

fn pod_scoped_job(site: &TestSite, replicas: u32) -> Value {
    let mut job = site.job("j", replicas, 1);
    job["spec"]["restart"]["scope"] = json!("Pod");
    job
}

/// Waits until a new pod with this name runs, and returns it.
async fn wait_for_replacement(site: &TestSite, before: &Pod) -> Pod {
    let name = before.name_any();
    let is_replacement = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        phase == Some("Running") && pod.uid() != before.uid()
    };
    let pods = site.api::<Pod>();
    wait_for(&pods, &name, SOON, is_replacement).await.unwrap()
}

fn is_running(status: &TrainingJobStatus) -> bool {
    let reason = status.reason.map(|r| r.as_str());
    status.phase == Some(JobPhase::Running) && reason == Some("Running")
}

#[tokio::test]
async fn failed_pod_restarts_on_its_node_while_the_other_pods_continue() {
    let site = create_site("alone", 2).await;
    site.create(pod_scoped_job(&site, 3)).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let before = site.wait_for_whole_gang("j", 3).await;
    site.end_pod("j-worker-1", "1").await;
    let recovers = site
        .wait_for_status("j", |s| {
            s.reason.is_some_and(|r| r.as_str() == "Recovering")
        })
        .await;
    assert_eq!(
        recovers.status.as_ref().unwrap().phase,
        Some(JobPhase::Running)
    );
    let status_message = message(&recovers);
    assert!(
        status_message.contains("\"j-worker-1\", Error, exit code 1"),
        "{status_message}"
    );
    let replacement = wait_for_replacement(&site, &before[1]).await;
    let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone();
    assert_eq!(node(&replacement), node(&before[1]));
    let annotations = replacement.annotations();
    assert_eq!(annotations.get(names::ROUND).map(String::as_str), Some("1"));
    assert_eq!(
        replacement.labels().get(names::ATTEMPT).map(String::as_str),
        Some("1")
    );
    // A pod that fails a moment later belongs to the same wave.
    site.delete::<Pod>("j-worker-2").await;
    wait_for_replacement(&site, &before[2]).await;
    let status = site.wait_for_status("j", is_running).await.status.unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(1), Some(0)));
    let after = site.wait_for_whole_gang("j", 3).await;
    assert_eq!(after[0].uid(), before[0].uid());
    // When all pods have succeeded, the job is complete.
    for pod in &after {
        site.end_pod(&pod.name_any(), "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
}

/// Otherwise the head of the queue would get the GPUs of a failed rank.
#[tokio::test]
async fn restarted_gang_keeps_its_nodes() {
    let site = create_site("kept", 2).await;
    let (queue, high) = create_ordered_queue(&site).await;
    submit_to_queue(&site, "j", 2, &queue, None).await;
    site.wait_for_running_attempt("j", 1).await;
    submit_to_queue(&site, "first", 1, &queue, Some(&high)).await;
    site.wait_for_phase("first", JobPhase::Queued).await;
    let nodes = async || {
        let pods = site.wait_for_whole_gang("j", 2).await;
        let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone();
        pods.iter().map(node).collect::<Vec<_>>()
    };
    let before = nodes().await;
    for attempt in [2, 3] {
        site.end_pod("j-worker-0", "1").await;
        site.wait_for_running_attempt("j", attempt).await;
        assert_eq!(nodes().await, before);
        let pending = site.wait_for_phase("first", JobPhase::Queued).await;
        assert_eq!(pending.status.unwrap().attempt, Some(1));
    }
    // A suspended job releases its nodes, and the pending job gets them.
    let suspend = json!({"spec": {"suspend": true}});
    site.patch("j", suspend).await.unwrap();
    site.wait_for_phase("first", JobPhase::Running).await;
}

#[tokio::test]
async fn dependent_group_waits_and_its_place_stays_reserved() {
    let site = create_site("depends", 1).await;
    let hangs = [(kubelet::HANG, "true")];
    PodPolicy::annotate_for_kubelets(shared_control_plane().await, site.name(), &hangs)
        .await
        .unwrap();
    let mut job = site.job("j", 2, 2);
    let mut driver = job["spec"]["taskGroups"][0].clone();
    driver["name"] = json!("driver");
    driver["replicas"] = json!(1);
    driver["gpus"] = json!(4);
    driver["dependsOn"] = json!([{"group": "worker"}]);
    job["spec"]["taskGroups"]
        .as_array_mut()
        .unwrap()
        .push(driver);
    site.create(job).await.unwrap();
    let starts = site.wait_for_phase("j", JobPhase::Starting).await;
    let awaited = starts.status.unwrap().internal.awaited_pods.unwrap();
    assert_eq!(awaited.held_groups, ["driver"]);
    // Another job does not get the reserved nodes.
    site.submit("other", 1, 1).await;
    site.wait_for_status("other", |s| {
        let status_message = s.full_message();
        let is_room = status_message.contains("GPU") || status_message.contains("gpu");
        s.phase == Some(JobPhase::Queued) && is_room
    })
    .await;
    let mut pods = site.list_pods("j").await;
    pods.sort_by_key(ResourceExt::name_any);
    let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["j-worker-0", "j-worker-1"]);
    site.annotate_pod("j-worker-0", kubelet::HANG, "false")
        .await;
    site.annotate_pod("j-worker-1", kubelet::HANG, "false")
        .await;
    site.wait_for_pod_count("j", 3).await;
    site.annotate_pod("j-driver-0", kubelet::HANG, "false")
        .await;
    let status = site.wait_for_status("j", is_running).await.status.unwrap();
    assert_eq!(status.ready.as_deref(), Some("3/3"));
    assert!(status.internal.awaited_pods.unwrap().held_groups.is_empty());
}
