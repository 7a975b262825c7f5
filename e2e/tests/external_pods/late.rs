//! A binding that commits after its plan was undone.

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::SOON;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_gone};

use super::scene::{bound, group, journal, node, pod};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trellis-under-test");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_that_is_bound_after_its_plan_was_undone_is_stopped() {
    let control_plane = operator::control_plane().await.unwrap();
    let launch = Launch::named("operator").lease_seconds(60);
    let (_operator, proxy) = Operator::behind_proxy(&control_plane, Path::new(PROGRAM), &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "late", Nodes::new(1).gpus(8)).await;
    proxy.on_request(|request| {
        let binds = request.verb == Verb::Create && request.resource == "pods/binding";
        match binds && request.object_name().as_deref() == Some("b") {
            true => Fault::Late,
            false => Fault::Pass,
        }
    });
    group(&site, "g", json!({"minMember": 2})).await;
    for name in ["a", "b"] {
        pod(&site, name, 4, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
        })
        .await;
    }
    bound(&site, "a").await;
    // The plan cannot be carried out any more.
    let pods = site.api::<Pod>();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    let undone = eventually(2 * SOON, || async {
        let journal = journal(&site, "g").await;
        let is_undone = journal.plan.is_none() && !journal.undone_plans.is_empty();
        ensure!(is_undone, "{journal:?}");
        ensure!(journal.phase == Some(PodGroupPhase::Pending), "{journal:?}");
        Ok(())
    });
    undone.await.unwrap();
    assert_eq!(node(&pods.get("b").await.unwrap()), None);

    proxy.heal();
    wait_gone(&pods, "b", SOON).await.unwrap();
    // Both make a gang again.
    for name in ["a", "b"] {
        pod(&site, name, 4, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
        })
        .await;
    }
    bound(&site, "a").await;
    bound(&site, "b").await;
}
