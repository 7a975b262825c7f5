//! The children of a job stay as the job compiles, also after edits by users.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, names};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::create_site;

/// Returns the ports of the job's Service by name.
async fn service_ports(site: &TestSite) -> Result<BTreeMap<String, i32>> {
    let spec = site.api::<Service>().get("j").await?.spec;
    let ports = spec.and_then(|s| s.ports).unwrap_or_default();
    let named = ports
        .into_iter()
        .filter_map(|p| Some((p.name?, p.port)))
        .collect();
    Ok(named)
}

/// Returns the resource versions of the children, which change with each write.
async fn child_versions(site: &TestSite) -> Vec<Option<String>> {
    vec![
        site.api::<Service>()
            .get("j")
            .await
            .unwrap()
            .resource_version(),
        site.api::<NetworkPolicy>()
            .get("j")
            .await
            .unwrap()
            .resource_version(),
        site.api::<PodGroup>()
            .get("j")
            .await
            .unwrap()
            .resource_version(),
    ]
}

/// Makes the operator reconcile the job several times, and checks that it does not write the
/// children.
async fn check_no_rewrites(site: &TestSite) {
    let before = child_versions(site).await;
    for look in 0..3 {
        let patch = json!({"metadata": {"annotations": {"example.com/look": look.to_string()}}});
        site.patch("j", patch).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(
        child_versions(site).await,
        before,
        "the operator writes the children repeatedly"
    );
}

#[tokio::test]
async fn fields_removed_from_a_job_are_removed_from_its_children() {
    let site = create_site("shrinks", 0).await;
    let mut job = site.job("j", 2, 8);
    job["spec"]["suspend"] = json!(true);
    job["spec"]["framework"] = json!("None");
    let port = |name: &str, number: i32| json!({"name": name, "port": number});
    job["spec"]["taskGroups"][0]["ports"] = json!([port("metrics", 9100), port("debug", 5678)]);
    site.create(job.clone()).await.unwrap();
    site.wait_for_phase("j", JobPhase::Suspended).await;
    assert_eq!(service_ports(&site).await.unwrap().len(), 2);

    let mut group = job["spec"]["taskGroups"][0].clone();
    group["name"] = json!("trainer");
    group["gpus"] = json!(0);
    group["ports"] = json!([port("metrics", 9100)]);
    site.patch("j", json!({"spec": {"taskGroups": [group]}}))
        .await
        .unwrap();
    eventually(SOON, || async {
        let spec = site.api::<PodGroup>().get("j").await?.spec;
        let groups: Vec<_> = spec.groups.iter().map(|g| g.name.as_str()).collect();
        ensure!(groups == ["trainer"], "groups {groups:?}");
        let resources = &spec.groups[0].resources;
        ensure!(!resources.contains_key("nvidia.com/gpu"), "{resources:?}");
        let ports = service_ports(&site).await?;
        ensure!(
            ports == BTreeMap::from([("metrics".to_owned(), 9100)]),
            "ports {ports:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    check_no_rewrites(&site).await;
}

async fn edit_network_policy(site: &TestSite, patch: Value) {
    site.api::<NetworkPolicy>()
        .patch("j", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// One edit opens the NetworkPolicy and removes the label by which the operator watches it.
#[tokio::test]
async fn network_policy_without_our_label_is_repaired() {
    let site = create_site("sight", 1).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let policies = site.api::<NetworkPolicy>();
    let before = policies.get("j").await.unwrap();
    edit_network_policy(
        &site,
        json!({
            "metadata": {"labels": {names::MANAGED_BY: null}},
            "spec": {"egress": [{}], "podSelector": {"matchLabels": {"no": "pod"}}},
        }),
    )
    .await;
    eventually(SOON, || async {
        let now = policies.get("j").await?;
        ensure!(now.spec == before.spec, "{:?}", now.spec);
        ensure!(now.labels() == before.labels(), "{:?}", now.labels());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(policies.get("j").await.unwrap().uid(), before.uid());
    check_no_rewrites(&site).await;
}

#[tokio::test]
async fn foreign_fields_of_a_child_are_preserved() {
    let site = create_site("theirs", 0).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Queued).await;
    edit_network_policy(
        &site,
        json!({"metadata": {"labels": {"example.com/team": "a"}}}),
    )
    .await;
    check_no_rewrites(&site).await;
    let policy = site.api::<NetworkPolicy>().get("j").await.unwrap();
    assert_eq!(policy.labels()["example.com/team"], "a");
}
