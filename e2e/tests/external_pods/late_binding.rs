//! A binding that takes effect after its plan was rolled back.

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{ProxyFault, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use super::fixtures::{create_pod, create_pod_group, node_name, read_journal, wait_until_bound};

const OPERATOR_PROGRAM: &str = env!("CARGO_BIN_EXE_trellis-under-test");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_bound_after_its_plan_rolled_back_is_deleted() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, Path::new(OPERATOR_PROGRAM), &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "late", NodeTemplate::new(1).gpus(8)).await;
    proxy.on_request(|request| {
        let binds = request.verb == Verb::Create && request.resource == "pods/binding";
        match binds && request.object_name().as_deref() == Some("b") {
            true => ProxyFault::DelayUntilHealed,
            false => ProxyFault::Pass,
        }
    });
    create_pod_group(&site, "g", json!({"minMember": 2})).await;
    for name in ["a", "b"] {
        create_pod(&site, name, 4, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
        })
        .await;
    }
    wait_until_bound(&site, "a").await;
    // The plan cannot be completed any more.
    let pods = site.api::<Pod>();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    let undone = eventually(2 * SOON, || async {
        let journal = read_journal(&site, "g").await;
        let is_undone = journal.plan.is_none() && !journal.undone_plans.is_empty();
        ensure!(is_undone, "{journal:?}");
        ensure!(journal.phase == Some(PodGroupPhase::Pending), "{journal:?}");
        Ok(())
    });
    undone.await.unwrap();
    assert_eq!(node_name(&pods.get("b").await.unwrap()), None);

    proxy.remove_faults();
    wait_until_deleted(&pods, "b", SOON).await.unwrap();
    // Both pods form a gang again.
    for name in ["a", "b"] {
        create_pod(&site, name, 4, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
        })
        .await;
    }
    wait_until_bound(&site, "a").await;
    wait_until_bound(&site, "b").await;
}
