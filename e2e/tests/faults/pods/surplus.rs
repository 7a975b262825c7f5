//! Surplus pods under every leader.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::names;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;
use trellis_verify::Rule;

use crate::operator_program;

async fn create_elastic_job(site: &TestSite, replicas: u32) {
    let mut job = site.job("j", replicas, 1);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(2);
    site.create(job).await.unwrap();
}

async fn pod_uids_by_name(site: &TestSite) -> BTreeMap<String, Option<String>> {
    let pods = site.list_pods("j").await.into_iter();
    pods.map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// A new leader finds surplus pods, counts them against the queue, and preempts them.
#[tokio::test]
async fn new_leader_preempts_surplus_pods() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "heirs", NodeTemplate::new(1).gpus(8)).await;
    create_elastic_job(&site, 6).await;
    site.wait_for_status("j", |s| s.ready.as_deref() == Some("6/6"))
        .await;
    let before = pod_uids_by_name(&site).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let mut second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    // Two GPUs are free, and one of the four surplus pods is evicted.
    site.submit("other", 1, 3).await;
    site.wait_for_phase("other", JobPhase::Running).await;
    site.wait_for_status("j", |s| s.ready.as_deref() == Some("5/6"))
        .await;
    let after = pod_uids_by_name(&site).await;
    let stayed = after
        .iter()
        .filter(|(pod, uid)| before.get(*pod) == Some(uid));
    assert_eq!(stayed.count(), 5, "{before:?} {after:?}");
    second.assert_runs();
}

/// A former leader has created the pod, so the new leader does not rely on it.
#[tokio::test]
async fn surplus_pod_of_a_stale_leader_is_deleted() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut operator = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "stale", NodeTemplate::new(1).gpus(4)).await;
    create_elastic_job(&site, 6).await;
    site.wait_for_status("j", |s| s.ready.as_deref() == Some("4/6"))
        .await;
    let pods = site.api::<Pod>();
    let mut stale = pods.get("j-worker-3").await.unwrap();
    let epoch = stale.annotations()[names::EPOCH].parse::<i64>().unwrap();
    stale.status = None;
    stale.metadata.resource_version = None;
    stale.metadata.uid = None;
    stale.metadata.name = Some("j-worker-5".to_owned());
    // The test creates the pod on a node that is full.
    site.expect_broken(Rule::OverCapacity);
    stale
        .labels_mut()
        .insert(names::INDEX.to_owned(), "5".to_owned());
    let epoch = (epoch - 1).to_string();
    stale
        .annotations_mut()
        .insert(names::EPOCH.to_owned(), epoch);
    pods.create(&PostParams::default(), &stale).await.unwrap();
    eventually(SOON, || async {
        ensure!(
            pods.get_opt("j-worker-5").await?.is_none(),
            "the pod exists"
        );
        Ok(())
    })
    .await
    .unwrap();
    let status = site.wait_for_status("j", |s| s.ready.as_deref() == Some("4/6"));
    let status = status.await.status.unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(0), Some(0)));
    operator.assert_runs();
}
