//! The operator is killed after its k-th write, for every k. The next leader completes or rolls
//! back its work. No pod is created twice or orphaned, and no gang is left incomplete.

/// The moment of each kill: after or before the operator gets the answer to the write. Two tests of a
/// story cover both moments of each write.
#[derive(Debug, Clone, Copy)]
enum KillMoments {
    /// After the answer to the first write, before that to the second, and so on.
    AfterFirst,
    /// Before the answer to the first write, after that to the second, and so on.
    BeforeFirst,
}

impl KillMoments {
    fn at_write(self, k: u64) -> TrapTiming {
        match (self, k.is_multiple_of(2)) {
            (Self::AfterFirst, false) | (Self::BeforeFirst, true) => TrapTiming::AfterAnswer,
            (Self::AfterFirst, true) | (Self::BeforeFirst, false) => TrapTiming::BeforeAnswer,
        }
    }
}

/// Two tests of a story: the operator is killed at each write. The second test is slow, and ignored by
/// default. The simulation (`e2e/simulation`) kills the operator at both moments, too, but simulates
/// no claims, external pods or stages.
macro_rules! at_both_moments {
    ($story:ident) => {
        mod $story {
            use crate::KillMoments;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn after_the_first_answer() {
                super::$story(KillMoments::AfterFirst).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "slow: .ci/run --all runs it"]
            async fn before_the_first_answer() {
                super::$story(KillMoments::BeforeFirst).await;
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
mod slices;
mod stages;

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::operator::{self, LaunchOptions, RECOVERY_TIMEOUT, Succession};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::wait::eventually;

/// Starts the first operator under test, on a control plane of its own.
async fn start_succession() -> Succession {
    let control_plane = operator::start_control_plane().await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    Succession::start(control_plane, program, LaunchOptions::with_name("operator")).await
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

fn is_running(job: &TrainingJob) -> bool {
    phase(job) == Some(JobPhase::Running)
}
