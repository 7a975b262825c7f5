//! All ranks of a large gang fail at once.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::kubelet;
use trellis_e2e::proxy::{Proxy, Verb};
use trellis_e2e::wait::wait_for;

use crate::fixtures::FaultFixture;

/// Number of pods of the gang.
const GANG_SIZE: u32 = 1_000;
/// Number of nodes, with eight pods each.
const NODE_COUNT: usize = 125;
/// Longest time until all pods have ended and started on a busy machine. With 47 other tests on two
/// slow cores, the end of all pods took two minutes, and their start one and a half.
const START_TIMEOUT: Duration = Duration::from_secs(480);

fn count_requests(proxy: &Proxy, verb: Verb, resource: &str) -> u64 {
    let is_counted =
        |key: &trellis_e2e::proxy::RequestKey| key.verb == verb && key.resource == resource;
    proxy.counts().sum(is_counted).requests
}

/// Describes the first pods that are not ready.
async fn list_unready(pods: &Api<Pod>) -> Vec<String> {
    let all = pods.list(&ListParams::default()).await.unwrap();
    let unready = all.items.iter().filter_map(|pod| {
        let (meta, status) = (&pod.metadata, pod.status.as_ref()?);
        let conditions = status.conditions.iter().flatten();
        let mut ready = conditions.filter(|c| c.type_ == "Ready" && c.status == "True");
        let words = format!(
            "{:?} {:?} deleted {:?} grace {:?}",
            meta.name, status.phase, meta.deletion_timestamp, meta.deletion_grace_period_seconds
        );
        ready.next().is_none().then_some(words)
    });
    unready.take(10).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: .ci/run --all runs it"]
async fn thousand_failed_pods_cost_one_attempt_and_few_writes() {
    let FaultFixture {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = FaultFixture::new("wave", NODE_COUNT).await;
    let mut job = site.job("j", GANG_SIZE, 1);
    job["spec"]["restart"] = json!({"backoffSeconds": 0, "maxBackoffSeconds": 0});
    site.create(job).await.unwrap();
    let jobs = site.api::<TrainingJob>();
    let pods = site.api::<Pod>();
    let wait_until_running = async |attempt: i64| {
        let is_running_again = |job: &TrainingJob| {
            let status = job.status.clone().unwrap_or_default();
            status.phase == Some(JobPhase::Running) && status.attempt == Some(attempt)
        };
        match wait_for(&jobs, "j", START_TIMEOUT, is_running_again).await {
            Ok(job) => job,
            Err(error) => panic!("{error:#}; pods: {:#?}", list_unready(&pods).await),
        }
    };
    wait_until_running(1).await;
    proxy.reset_counts();
    let fails = json!({"metadata": {"annotations": {kubelet::EXIT: "1"}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&fails));
    let all = futures::stream::iter(0..GANG_SIZE).map(|index| {
        let name = format!("j-worker-{index}");
        let (pods, params, patch) = (&pods, &params, &patch);
        async move { pods.patch(&name, params, patch).await }
    });
    // The first pod may already be deleted when the test makes the last one fail.
    let failed = all
        .buffer_unordered(64)
        .filter(|answer| std::future::ready(answer.is_ok()));
    assert!(failed.count().await > 0);
    let status = wait_until_running(2).await.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(1), Some(0)));
    assert_eq!(status.ready.as_deref(), Some("1000/1000"));
    let patches = count_requests(&proxy, Verb::Patch, "trainingjobs.trellis.dev/status");
    assert!(
        (2..=40).contains(&patches),
        "{patches} patches of the job's status"
    );
    let created = count_requests(&proxy, Verb::Create, "pods");
    assert!(
        created <= u64::from(GANG_SIZE) + 10,
        "{created} pods were requested"
    );
    // One delete per pod, plus retries of requests that a busy API server does not answer in time.
    let deleted = count_requests(&proxy, Verb::Delete, "pods");
    let pods = u64::from(GANG_SIZE);
    assert!(
        (pods..=pods + pods / 50).contains(&deleted),
        "{deleted} deletes of pods"
    );
}
