//! Requests without an answer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::eventually;

use crate::fixtures::FaultFixture;
use crate::operator_program;

/// A list request is never answered, as behind a load balancer that has lost the connection.
/// Without a timeout, the leader would wait forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_list_is_retried() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let hung = AtomicBool::new(false);
    proxy.on_request(move |request| {
        let lists = request.resource == "pods" && request.verb == Verb::List;
        if lists && !hung.swap(true, Ordering::SeqCst) {
            ProxyFault::Hang
        } else {
            ProxyFault::Pass
        }
    });
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let _operator =
        Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "hung", NodeTemplate::new(1).gpus(8)).await;
    site.submit("j", 2, 1).await;
    eventually(2 * SOON, || site.check_whole_gang("j", 2))
        .await
        .unwrap();
}

/// The operator creates all objects of a job, but gets neither the responses nor watch events. When
/// it creates them again, it finds its own objects, and creates no object twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_created_without_a_response_are_adopted() {
    let FaultFixture {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("unheard", 1).await;
    let history = PodHistory::record(site.api::<Pod>());
    let namespace = site.name().to_owned();
    proxy.stall_watches(|request| request.resource != "trainingjobs.trellis.dev");
    let cut = Arc::new(Mutex::new(BTreeSet::new()));
    let flag = cut.clone();
    proxy.on_request(move |request| {
        let creates = request.verb == Verb::Create
            && request.namespace.as_deref() == Some(&namespace)
            && !request.dry_run
            && !request.resource.starts_with("events");
        let object = (request.resource.clone(), request.object_name());
        match creates && flag.lock().unwrap().insert(object) {
            true => ProxyFault::DropResponse,
            false => ProxyFault::Pass,
        }
    });
    let mut job = site.job("j", 2, 1);
    job["spec"]["framework"] = json!("DeepSpeed");
    site.create(job).await.unwrap();
    eventually(SOON, || async {
        let cut = cut.lock().unwrap();
        let pods = cut.iter().filter(|(kind, _)| kind == "pods").count();
        anyhow::ensure!(pods == 2, "{cut:?}");
        Ok(())
    })
    .await
    .unwrap();
    // No watch has shown the pods to the operator, so it has read each of them.
    site.wait_for_status("j", |s| s.scheduled_time.is_some())
        .await;
    proxy.resume_watches();
    site.wait_for_phase("j", JobPhase::Running).await;
    let cut = cut.lock().unwrap();
    let cut: BTreeSet<_> = cut.iter().map(|(kind, _)| kind.clone()).collect();
    let kinds = [
        "configmaps",
        "networkpolicies.networking.k8s.io",
        "podgroups.trellis.dev",
        "pods",
        "services",
    ];
    assert_eq!(cut, kinds.map(str::to_owned).into());
    assert_eq!(
        history.uids_by_name().len(),
        2,
        "{:?}",
        history.uids_by_name()
    );
    operator.assert_runs();
}
