//! The operator is killed after its k-th write, for every k: the next one
//! finishes or undoes what it began. No pod twice, none orphaned, never a part left.

mod preemption;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::{Jobs, phase};
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Moment, Request};
use trellis_e2e::wait::{eventually, wait_for};

const GANG: u32 = 8;
/// Whose the nodes are.
const SCOPE: &str = "crash";
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
    let (first, proxy) = Operator::behind_proxy(control_plane, program, &Launch::named("operator"))
        .await
        .unwrap();
    let first = Arc::new(Mutex::new(first));
    let victim = first.clone();
    let mut fired = proxy.after_write(k, moment, counts, move || {
        let _ = victim.lock().unwrap().kill();
    });
    let jobs = Jobs::new(&namespace, SCOPE);
    jobs.submit("j", GANG, 1).await;
    let api = jobs.api::<TrainingJob>();
    // The last k is one that is never reached.
    let reached = tokio::select! {
        reached = fired.wait(RECOVERY) => reached.is_ok(),
        _ = wait_for(&api, "j", RECOVERY, running) => fired.wait(Duration::from_secs(5)).await.is_ok(),
    };
    let _ = first.lock().unwrap().kill();
    let _second = Operator::start(control_plane, program).await.unwrap();
    let done = wait_for(&api, "j", RECOVERY, running)
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    let status = done.status.unwrap();
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let whole = eventually(RECOVERY, || jobs.try_whole("j", GANG as usize)).await;
    whole.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    reached
}

fn running(job: &TrainingJob) -> bool {
    phase(job) == Some(JobPhase::Running)
}

async fn every_k(moment: Moment) {
    let control_plane = operator::control_plane().await.unwrap();
    let _nodes = Nodes::new(2)
        .gpus(8)
        .scope(SCOPE)
        .create(&control_plane)
        .await
        .unwrap();
    for k in 1..=ENOUGH {
        if !survives(&control_plane, k, moment).await {
            // 3 children, a dry run, the journal twice, the pods, a status.
            assert!(k > 3 + 1 + 2 + u64::from(GANG), "only {k} writes");
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
