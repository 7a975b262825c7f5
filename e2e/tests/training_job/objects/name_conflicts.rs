//! Foreign objects with the names of a job's children.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::wait_until_deleted;

use crate::create_site;

/// Objects that the garbage collector has not deleted yet are no conflict. A job that a GitOps tool
/// replaces must not fail because of them.
#[tokio::test]
async fn job_waits_for_the_children_of_its_deleted_namesake() {
    let site = create_site("namesake", 1).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let services = site.api::<Service>();
    let finalizers = async |list: Value| {
        let patch = json!({"metadata": {"finalizers": list}});
        services
            .patch("j", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    };
    finalizers(json!(["test.trellis.dev/stays"])).await;
    site.delete::<TrainingJob>("j").await;
    wait_until_deleted(&site.api::<TrainingJob>(), "j", SOON)
        .await
        .unwrap();

    site.submit("j", 1, 1).await;
    let first = site.wait_for_status("j", |s| s.phase.is_some()).await;
    let status = first.status.clone().unwrap();
    assert_eq!(status.phase, Some(JobPhase::Waiting), "{}", message(&first));
    assert_eq!(reason(&first), "PodsTerminating");
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled");
    assert_eq!(stalled.unwrap().status, "False");

    finalizers(Value::Null).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

/// The operator gets no events of a NetworkPolicy without its label.
#[tokio::test]
async fn foreign_network_policy_blocks_the_job_until_it_is_deleted() {
    let site = create_site("foreign", 1).await;
    let foreign: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "j"}, "spec": {"podSelector": {}}}))
    .unwrap();
    let policies = site.api::<NetworkPolicy>();
    policies
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    site.submit("j", 1, 1).await;
    let blocked = site.wait_for_phase("j", JobPhase::Blocked).await;
    assert_eq!(reason(&blocked), "NameConflict", "{}", message(&blocked));
    site.delete::<NetworkPolicy>("j").await;
    site.wait_for_phase("j", JobPhase::Running).await;
}
