//! Pods whose deletion does not complete, or is not visible, are not deleted in a loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, TrafficTotals, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::{fixtures::FaultFixture, operator_program};

fn delete_totals(proxy: &Proxy) -> TrafficTotals {
    proxy
        .counts()
        .sum(|key| key.verb == Verb::Delete && key.resource == "pods")
}

async fn wait_for_first_delete(proxy: &Proxy) {
    eventually(SOON, || async {
        ensure!(delete_totals(proxy).requests > 0, "no pod was deleted");
        Ok(())
    })
    .await
    .unwrap();
}

/// A user creates a pod that no kubelet stops, because its node never existed, and that a finalizer
/// keeps forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_with_a_finalizer_is_deleted_with_backoff() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "kept", NodeTemplate::new(1).gpus(8)).await;
    let launch = LaunchOptions::with_name("operator").lease_seconds(120);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let forced = Arc::new(AtomicBool::new(false));
    let counter = Arc::clone(&forced);
    proxy.on_request(move |request| {
        let body = String::from_utf8_lossy(&request.body);
        if request.verb == Verb::Delete && body.contains("\"gracePeriodSeconds\":0") {
            counter.store(true, Ordering::SeqCst);
        }
        ProxyFault::Pass
    });
    let job = site.submit("j", 2, 8).await;
    site.wait_for_phase("j", JobPhase::Queued).await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "j-worker-7",
            "finalizers": ["test.trellis.dev/for-ever"],
            "ownerReferences": [{
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                "uid": job.metadata.uid, "controller": true,
            }],
        },
        "spec": {"nodeName": "nowhere", "containers": [{"name": "main", "image": "busybox"}]},
    }))
    .unwrap();
    let pods = site.api::<Pod>();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    // The operator gives up an unknown node after a minute.
    eventually(3 * SOON, || async {
        ensure!(
            forced.load(Ordering::SeqCst),
            "the pod was not deleted by force"
        );
        Ok(())
    })
    .await
    .unwrap();
    proxy.reset_counts();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let later = delete_totals(&proxy);
    // The operator retries after 1, 3 and 7 s.
    assert!((1..=3).contains(&later.requests), "{later:?}");
    // Without its finalizer the pod is deleted, and the job is reconciled again.
    let patch = json!({"metadata": {"finalizers": null}});
    pods.patch("j-worker-7", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let extra_nodes = site
        .add_nodes(&control_plane, NodeTemplate::new(1).gpus(8))
        .await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.wait_for_whole_gang("j", 2).await;
    drop(extra_nodes);
}

/// Deleted pods seem to exist while the watch stalls. The operator retries refused deletes with a
/// growing back-off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_is_deleted_once_behind_a_stalled_watch() {
    let FaultFixture {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = FaultFixture::new("stalled", 1).await;
    site.submit("j", 4, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    proxy.stall_watches(|request| request.resource == "pods");
    proxy.reset_counts();
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_pod_count("j", 0).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let stalled = delete_totals(&proxy);
    assert_eq!(stalled.requests, 4, "{stalled:?}");
    proxy.resume_watches();
    site.wait_for_phase("j", JobPhase::Suspended).await;

    site.submit("k", 1, 1).await;
    site.wait_for_phase("k", JobPhase::Running).await;
    proxy.reset_counts();
    proxy.on_request(|request| {
        if request.verb == Verb::Delete && request.resource == "pods" {
            ProxyFault::Status(403, None)
        } else {
            ProxyFault::Pass
        }
    });
    site.patch("k", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    wait_for_first_delete(&proxy).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    // The operator tries at 0, 1, 3 and 7 s.
    let refused = delete_totals(&proxy);
    assert!((2..=4).contains(&refused.requests), "{refused:?}");
    proxy.remove_faults();
    site.wait_for_pod_count("k", 0).await;
}
