//! A refused job reports the reason, and does not affect other jobs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::wait_for;

use crate::{create_site, shared_control_plane};

#[tokio::test]
async fn job_waits_for_its_missing_queue() {
    let site = create_site("queue", 0).await;
    let mut spec = site.job("j", 1, 0);
    let queue = format!("{}-q", site.name());
    spec["spec"]["queueName"] = json!(queue);
    site.create(spec).await.unwrap();
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "QueueNotFound");
    // A queue that does not select the namespace refuses the job.
    let yaml = format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {{name: {queue}}}\nspec: {{}}\n"
    );
    shared_control_plane()
        .await
        .apply_yaml(&yaml)
        .await
        .unwrap();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied", "{}", message(&refused));
}

#[tokio::test]
async fn foreign_service_is_not_changed() {
    let site = create_site("conflict", 0).await;
    let foreign: Service = serde_json::from_value(json!({
        "metadata": {"name": "j"}, "spec": {"ports": [{"port": 80}]}}))
    .unwrap();
    let services = site.api::<Service>();
    services
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    site.submit("j", 1, 0).await;
    let blocked = site.wait_for_phase("j", JobPhase::Blocked).await;
    assert_eq!(reason(&blocked), "NameConflict");
    let after = services.get("j").await.unwrap();
    assert!(after.metadata.owner_references.is_none());
    assert!(after.metadata.labels.is_none());
}

#[tokio::test]
async fn too_small_resource_quota_is_reported_before_the_first_pod() {
    let site = create_site("corequota", 2).await;
    site.create_pod_quota(3).await;
    site.submit("j", 4, 1).await;
    let waiting = site
        .wait_until_queued_for("j", Reason::ResourceQuotaExceeded)
        .await;
    assert!(
        message(&waiting).contains("needs 4"),
        "{}",
        message(&waiting)
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
}

#[tokio::test]
async fn gang_with_a_refused_pod_rolls_back_and_starves_no_gang() {
    let site = create_site("admission", 2).await;
    let third_is_refused = PodPolicy::refuse_unless(
        shared_control_plane().await,
        site.name(),
        "!(object.metadata.name in ['bad-worker-2', 'bad-worker-3'])",
        "the third pod is refused",
    );
    third_is_refused.await.unwrap();
    site.submit("bad", 4, 4).await;
    let waiting = site
        .wait_for_status("bad", |s| s.reason == Some(Reason::PodRefused))
        .await;
    assert!(
        message(&waiting).contains("the third pod is refused"),
        "{}",
        message(&waiting)
    );
    site.wait_for_pod_count("bad", 0).await;
    site.submit("good", 4, 4).await;
    site.wait_for_phase("good", JobPhase::Running).await;
}

#[tokio::test]
async fn gang_moves_when_admission_refuses_one_node() {
    // The API server refuses the first pod of a gang, and a pod that the dry run of its group does
    // not cover.
    for (prefix, denied) in [("first", 0), ("second", 1)] {
        let site = create_site(prefix, 3).await;
        let node = site.nodes().names()[denied].clone();
        let elsewhere = format!("object.spec.nodeName != '{node}'");
        PodPolicy::refuse_unless(
            shared_control_plane().await,
            site.name(),
            &elsewhere,
            "not on this node",
        )
        .await
        .unwrap();
        site.submit("j", 2, 8).await;
        site.wait_for_phase("j", JobPhase::Running).await;
        let pods = site.wait_for_whole_gang("j", 2).await;
        let on = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.clone());
        assert!(pods.iter().all(|pod| on(pod).as_ref() != Some(&node)));
    }
}

#[tokio::test]
async fn gang_rolls_back_when_admission_raises_the_requests_of_a_pod() {
    let site = create_site("unlike", 2).await;
    let second_is_larger = PodPolicy::patch(
        shared_control_plane().await,
        site.name(),
        "object.metadata.name != 'j-worker-1' ? [] : [JSONPatch{op: 'add', \
         path: '/spec/containers/0/resources/requests/cpu', value: '2'}, JSONPatch{op: 'add', \
         path: '/spec/containers/0/resources/limits/cpu', value: '2'}]",
    );
    second_is_larger.await.unwrap();
    site.submit("j", 2, 1).await;
    let refused = site
        .wait_for_status("j", |s| {
            let message = s.full_message();
            s.reason == Some(Reason::PodRefused) && message.contains("2000m of cpu")
        })
        .await;
    assert!(
        message(&refused).contains("\"j-worker-1\""),
        "{}",
        message(&refused)
    );
    site.wait_for_pod_count("j", 0).await;
}

/// The Service cannot be created again, because a quota of the namespace is full.
#[tokio::test]
async fn gang_is_not_placed_without_its_network_policy() {
    let site = create_site("open", 1).await;
    site.submit("runs", 1, 8).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Queued).await;
    let hard = json!({"count/networkpolicies.networking.k8s.io": "0"});
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "none"}, "spec": {"hard": hard}}))
    .unwrap();
    let quotas = site.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    wait_for(&quotas, "none", SOON, |quota: &ResourceQuota| {
        quota.status.as_ref().is_some_and(|s| s.used.is_some())
    })
    .await
    .unwrap();
    site.delete::<NetworkPolicy>("j").await;
    site.end_pod("runs-worker-0", "0").await;
    site.wait_for_phase("runs", JobPhase::Complete).await;
    let exceeded = Reason::ResourceQuotaExceeded;
    let pending = site
        .wait_for_phase_and_reason("j", JobPhase::Waiting, exceeded)
        .await;
    assert!(message(&pending).contains("networkpolicies"), "{pending:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(site.list_pods("j").await.len(), 0);
    site.delete::<ResourceQuota>("none").await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.api::<NetworkPolicy>().get("j").await.unwrap();
}
