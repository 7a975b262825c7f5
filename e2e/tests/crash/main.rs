//! The operator is killed after its k-th write, for every k: the next one
//! finishes or undoes what it began. No pod twice, none orphaned, never a part left.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::{Nodes, SCOPE};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::proxy::{Moment, Proxy, Request};
use trellis_e2e::wait::wait_for;

const GANG: usize = 8;
/// Lease, grace for a last request, list, commit.
const RECOVERY: Duration = Duration::from_secs(60);
/// More writes than the first attempt of a gang of 8 makes.
const ENOUGH: u64 = 40;

/// Writes of the job's own story: the lease is another's, and events may be lost.
fn counts(request: &Request) -> bool {
    request.is_write() && !request.is_lease() && !request.is_event()
}

async fn survives(control_plane: &ControlPlane, k: u64, moment: Moment) -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let namespace = TestNamespace::create(control_plane, "crash").await.unwrap();
    let proxy = Proxy::start(control_plane).await.unwrap();
    let token = control_plane
        .service_account_token(operator::NAMESPACE, operator::ACCOUNT)
        .await
        .unwrap();
    let kubeconfig = proxy.kubeconfig("operator", &token).unwrap();
    let first = Operator::start_with(control_plane, program, &kubeconfig).unwrap();
    let first = Arc::new(Mutex::new(first));
    let victim = first.clone();
    let mut fired = proxy.after_write(k, moment, counts, move || {
        let _ = victim.lock().unwrap().kill();
    });
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "j"},
        "spec": {"taskGroups": [{
            "name": "worker", "replicas": GANG, "gpus": 1, "image": "train:1",
            "resources": {"cpu": 1, "memory": "1Gi"}, "nodeSelector": {SCOPE: "crash"},
        }]},
    }))
    .unwrap();
    let jobs = namespace.api::<TrainingJob>();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    // The last k is one that is never reached.
    let reached = tokio::select! {
        reached = fired.wait(RECOVERY) => reached.is_ok(),
        _ = wait_for(&jobs, "j", RECOVERY, running) => fired.wait(Duration::from_secs(5)).await.is_ok(),
    };
    let _ = first.lock().unwrap().kill();
    let _second = Operator::start(control_plane, program).await.unwrap();
    let done = wait_for(&jobs, "j", RECOVERY, running)
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    let status = done.status.unwrap();
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let groups = namespace.api::<PodGroup>();
    let group = wait_for(&groups, "j", RECOVERY, |g: &PodGroup| {
        g.status.as_ref().and_then(|s| s.phase) == Some(PodGroupPhase::Placed)
    })
    .await
    .unwrap();
    let plan = group.status.unwrap().plan.unwrap().hash;
    let pods = namespace
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let plans: BTreeSet<_> = pods
        .iter()
        .map(|p| p.metadata.annotations.as_ref().unwrap()["trellis.dev/plan"].clone())
        .collect();
    assert_eq!(pods.len(), GANG, "after write {k} ({moment:?})");
    assert_eq!(
        plans,
        BTreeSet::from([plan]),
        "after write {k} ({moment:?})"
    );
    reached
}

fn running(job: &TrainingJob) -> bool {
    job.status.as_ref().and_then(|s| s.phase) == Some(JobPhase::Running)
}

async fn every_k(moment: Moment) {
    let control_plane = ControlPlane::start(operator::options().unwrap())
        .await
        .unwrap();
    operator::install(&control_plane).await.unwrap();
    let _nodes = Nodes::new(2)
        .gpus(8)
        .scope("crash")
        .create(&control_plane)
        .await
        .unwrap();
    for k in 1..=ENOUGH {
        if !survives(&control_plane, k, moment).await {
            // 3 children, a dry run, the journal twice, the pods, a status.
            assert!(k > 3 + 1 + 2 + GANG as u64, "only {k} writes");
            println!("killed after each of {} writes ({moment:?})", k - 1);
            return;
        }
    }
    panic!("more than {ENOUGH} writes for a gang of {GANG}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_whose_answer_it_saw() {
    every_k(Moment::AfterAnswer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_whose_answer_it_never_saw() {
    every_k(Moment::BeforeAnswer).await;
}
