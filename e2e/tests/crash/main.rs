//! The operator is killed after its k-th write, for every k. The next leader completes or rolls
//! back its work. No pod is created twice or orphaned, and no gang is left incomplete.

/// Two tests of a scenario: the operators are killed before they get the API server's answer, and
/// after they got it.
macro_rules! at_both_moments {
    ($story:ident) => {
        mod $story {
            use trellis_e2e::proxy::TrapTiming;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn leader_dies_after_the_response() {
                super::$story(TrapTiming::AfterAnswer).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn leader_dies_before_the_response() {
                super::$story(TrapTiming::BeforeAnswer).await;
            }
        }
    };
}

mod claims;
mod eviction;
mod external_pods;
mod external_preemption;
mod gang;
mod preemption;
mod recovery;
mod stages;
mod succession;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::proxy::{Request, TrapHandle, TrapTiming};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::wait::{eventually, wait_for};

use succession::Succession;

/// More writes than any scenario needs.
const MAX_WRITES: u64 = 40;
/// Time for a late write after the end of the scenario.
const LATE_WRITE_TIME: Duration = Duration::from_secs(3);
/// Time for lists and a commit on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// Returns true for the counted writes of a scenario: writes in its namespace, without the lease
/// and without events, which may be lost.
fn counted_write_filter(namespace: &str) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    let namespace = namespace.to_owned();
    move |request| {
        request.is_write()
            && !request.is_lease()
            && !request.is_event()
            && request.namespace.as_ref() == Some(&namespace)
    }
}

/// Kills the operator after the k-th write, for every k until one is not reached, which `survives`
/// returns. Fails if the scenario takes fewer than `minimum` writes.
async fn kill_after_every_write(minimum: u64, mut survives: impl AsyncFnMut(u64) -> bool) {
    for k in 1..=MAX_WRITES {
        if !survives(k).await {
            let writes = k - 1;
            assert!(writes >= minimum, "only {writes} writes");
            println!("killed after each of {writes} writes");
            return;
        }
    }
    panic!("more than {MAX_WRITES} writes");
}

/// Deletes the jobs of a site and waits until their pods and PodGroups are gone, so that the next
/// leader does not have to reconcile them.
async fn delete_jobs(site: &TestSite, jobs: &[&str]) {
    for job in jobs {
        site.delete::<TrainingJob>(job).await;
    }
    let pods = site.api::<Pod>();
    let groups = site.api::<PodGroup>();
    eventually(RECOVERY_TIMEOUT, || async {
        let pods = pods.list(&Default::default()).await?.items.len();
        let groups = groups.list(&Default::default()).await?.items.len();
        ensure!((pods, groups) == (0, 0), "{pods} pods, {groups} journals");
        Ok(())
    })
    .await
    .unwrap();
}

/// Kills the leader while it handles a job, unless the job satisfies `condition` before. The next
/// leader continues until the job satisfies `condition`. Returns the final status of the job, and
/// whether the leader was killed: in the last run it is not.
async fn wait_through_kill(
    operators: &mut Succession,
    site: &TestSite,
    (mut fired, k, moment): (TrapHandle, u64, TrapTiming),
    condition: impl Fn(&TrainingJob) -> bool + Copy,
) -> (TrainingJobStatus, bool) {
    let api = site.api::<TrainingJob>();
    let reached = tokio::select! {
        reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
        _ = wait_for(&api, "j", RECOVERY_TIMEOUT, condition) => fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok(),
    };
    operators.start_next_leader(site).await;
    let job = wait_for(&api, "j", RECOVERY_TIMEOUT, condition)
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    (job.status.unwrap(), reached)
}

fn is_running(job: &TrainingJob) -> bool {
    phase(job) == Some(JobPhase::Running)
}
