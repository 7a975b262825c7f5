//! A new leader places no gang before it has taken over all placed gangs. It does not wait for
//! gangs that it cannot take over.

use std::time::{Duration, Instant};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::endpoint;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::wait::eventually;

use crate::lease::wait_until_leading;
use crate::operator_program;

/// Less than the 30 s that a new leader waits to take over all gangs.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreconcilable_job_does_not_delay_gangs_under_a_new_leader() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "others", NodeTemplate::new(2).gpus(8)).await;
    let broken = TestNamespace::create(&control_plane, "broken")
        .await
        .unwrap();
    let jobs = site.jobs_in(&broken);
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    jobs.submit("j", 1, 8).await;
    jobs.wait_for_phase("j", JobPhase::Running).await;
    first.kill().unwrap();

    // The Service of the job is deleted and cannot be created again.
    jobs.delete::<Service>("j").await;
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let namespace = broken.name().to_owned();
    proxy.on_request(move |request| {
        let is_in_namespace = request.namespace.as_deref() == Some(&*namespace);
        if is_in_namespace && request.resource == "services" && request.verb == Verb::Create {
            ProxyFault::internal_error()
        } else {
            ProxyFault::Pass
        }
    });
    operator::release_lease(&control_plane).await.unwrap();
    let launch = LaunchOptions::with_name("second").lease_seconds(60);
    let mut second =
        Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
            .await
            .unwrap();
    wait_until_leading(&control_plane, &second).await;
    let began = Instant::now();
    site.submit("other", 1, 8).await;
    site.wait_for_phase("other", JobPhase::Running).await;
    let duration = began.elapsed();
    assert!(duration < TAKEOVER_LIMIT, "{duration:?}");
    // The broken job keeps its nodes during this time.
    site.submit("large", 2, 8).await;
    site.wait_for_phase("large", JobPhase::Queued).await;
    jobs.wait_for_whole_gang("j", 1).await;
    second.assert_runs();
}

/// The leader takes the placement over from the journal, which does not contain the runtime of the
/// job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_leader_knows_the_expected_end_of_placed_gangs() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "ends", NodeTemplate::new(1).gpus(8)).await;
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let mut running = site.job("runs", 1, 8);
    running["spec"]["deadlines"] = json!({"activeSeconds": 3600});
    site.create(running).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let second = Operator::start_with_endpoint(&control_plane, operator_program()).await;
    let mut second = second.unwrap();
    site.submit("next", 1, 8).await;
    site.wait_for_phase("next", JobPhase::Queued).await;
    eventually(SOON, || async {
        let next = endpoint::wait_for_pending_job(&second, &control_plane, (&site, "next")).await?;
        ensure!(next.message.contains("starts at"), "{}", next.message);
        Ok(())
    })
    .await
    .unwrap();
    second.assert_runs();
}

const QUEUE_OBJECTS: &str = "
apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {name: in-order}
spec: {namespaceSelector: {}, preemption: {withinClusterQueue: LowerOrNewerEqualPriority}}
";

/// The journal does not contain the submission time of the job either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_leader_knows_the_arrival_order_of_placed_gangs() {
    let control_plane = operator::start_control_plane().await.unwrap();
    control_plane.apply_yaml(QUEUE_OBJECTS).await.unwrap();
    let site = TestSite::new(&control_plane, "order", NodeTemplate::new(1).gpus(8)).await;
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let job = |name: &str| {
        let mut job = site.job(name, 1, 8);
        job["spec"]["queueName"] = json!("in-order");
        job
    };
    // The job waits for a missing object, and the newer job is placed before it.
    let mut older = job("older");
    older["spec"]["network"] = json!({"egress": [{"service": "store", "ports": [{"port": 443}]}]});
    site.create(older).await.unwrap();
    site.wait_for_phase("older", JobPhase::Waiting).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    site.create(job("newer")).await.unwrap();
    site.wait_for_phase("newer", JobPhase::Running).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let mut second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "store"},
        "spec": {"selector": {"app": "store"}, "ports": [{"port": 443}]},
    });
    let service = service.to_string();
    let applied = control_plane.apply_yaml_in(site.name(), &service);
    applied.await.unwrap();
    site.wait_for_phase("older", JobPhase::Running).await;
    second.assert_runs();
}
