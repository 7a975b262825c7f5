//! Answers that never come.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::history::PodHistory;
use trellis_e2e::jobs::SOON;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Proxy, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;
use super::scene::Scene;

/// A list request is never answered, as behind a load balancer that has lost the connection. The
/// operator leads, and would do nothing for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let control_plane = operator::control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let hung = AtomicBool::new(false);
    proxy.on_request(move |request| {
        let lists = request.resource == "pods" && request.verb == Verb::List;
        if lists && !hung.swap(true, Ordering::SeqCst) {
            Fault::Hang
        } else {
            Fault::Pass
        }
    });
    let launch = Launch::named("operator").lease_seconds(60);
    let _operator = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "hung", Nodes::new(1).gpus(8)).await;
    site.submit("j", 2, 1).await;
    eventually(2 * SOON, || site.try_whole("j", 2))
        .await
        .unwrap();
}

/// The operator creates all objects of a job and learns of none of them, neither from a response
/// nor from a watch. When it creates them again it finds its own objects, and creates nothing
/// twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_created_without_an_answer_is_found_again() {
    let Scene {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = Scene::new("unheard", 1).await;
    let history = PodHistory::record(site.api::<Pod>());
    let namespace = site.name().to_owned();
    proxy.stall_watches(|request| request.resource != "trainingjobs.trellis.dev");
    let cut = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = cut.clone();
    proxy.on_request(move |request| {
        let creates = request.verb == Verb::Create
            && request.namespace.as_deref() == Some(&namespace)
            && !request.dry_run
            && !request.resource.starts_with("events");
        let object = (request.resource.clone(), request.object_name());
        match creates && seen.lock().unwrap().insert(object) {
            true => Fault::DropAnswer,
            false => Fault::Pass,
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
    // No watch has reported the pods to the operator: it has read each of them.
    site.becomes("j", |s| s.scheduled_time.is_some()).await;
    proxy.resume_watches();
    site.reaches("j", JobPhase::Running).await;
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
    assert_eq!(history.seen().len(), 2, "{:?}", history.seen());
    operator.assert_runs();
}
