//! Operators that lead one after the other, each until the test kills it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_api::TrainingJob;
use trellis_api::job::TrainingJobStatus;

use super::{LaunchOptions, Operator};
use crate::control_plane::ControlPlane;
use crate::kubelet::HANG;
use crate::proxy::{Proxy, Request, TrapHandle, TrapTiming};
use crate::site::jobs::{SOON, TestJobs};
use crate::wait::{eventually, wait_for};

/// More writes than any scenario needs.
const MAX_WRITES: u64 = 40;
/// Time for a late write after the end of the scenario.
pub const LATE_WRITE_TIME: Duration = Duration::from_secs(3);
/// Time for lists and a commit on a busy machine.
pub const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// A control plane and its current leader. The leader that finishes the work of a killed one is the
/// next to be killed.
#[derive(Debug)]
pub struct Succession {
    /// The control plane.
    pub control_plane: Arc<ControlPlane>,
    program: PathBuf,
    launch: LaunchOptions,
    leader: Arc<Mutex<Operator>>,
    proxy: Proxy,
}

impl Succession {
    /// Starts the first leader. All leaders are `program operator` with the options of `launch`.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub async fn start(control_plane: ControlPlane, program: &Path, launch: LaunchOptions) -> Self {
        let (leader, proxy) = Operator::start_behind_new_proxy(&control_plane, program, &launch)
            .await
            .unwrap();
        Self {
            control_plane: Arc::new(control_plane),
            program: program.to_owned(),
            launch,
            leader: Arc::new(Mutex::new(leader)),
            proxy,
        }
    }

    /// Kills the leader after its k-th write from now on that `matches`.
    pub fn kill_after_write(
        &self,
        k: u64,
        moment: TrapTiming,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> TrapHandle {
        let victim = Arc::clone(&self.leader);
        self.proxy
            .call_after_write(k, moment, matches, move || kill(&victim))
    }

    /// Kills the leader while it handles a job, unless the job satisfies `condition` before. The
    /// next leader continues until the job satisfies `condition`. Returns the final status of the
    /// job, and whether the leader was killed: in the last run it is not.
    ///
    /// # Panics
    ///
    /// When the job does not satisfy `condition` [in time](RECOVERY_TIMEOUT).
    pub async fn wait_through_kill(
        &mut self,
        jobs: &TestJobs,
        name: &str,
        (mut fired, k, moment): (TrapHandle, u64, TrapTiming),
        condition: impl Fn(&TrainingJob) -> bool + Copy,
    ) -> (TrainingJobStatus, bool) {
        let api = jobs.api::<TrainingJob>();
        let reached = tokio::select! {
            reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
            _ = wait_for(&api, name, RECOVERY_TIMEOUT, condition) => fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok(),
        };
        self.start_next_leader(jobs).await;
        let job = wait_for(&api, name, RECOVERY_TIMEOUT, condition)
            .await
            .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
        (job.status.unwrap_or_default(), reached)
    }

    /// Kills the leader if it still lives, and starts another.
    ///
    /// Until a lease expires, kubelets process their pods. This function waits for them and then
    /// releases the lease, so that the next leader finds the same state as after an expiry.
    ///
    /// # Panics
    ///
    /// When the pods of `jobs` do not settle [soon](SOON).
    pub async fn start_next_leader(&mut self, jobs: &TestJobs) {
        kill(&self.leader);
        eventually(SOON, || async {
            let pods = jobs.api::<Pod>().list(&Default::default()).await?;
            let unsettled = pods.iter().find(|pod| !is_settled(pod));
            ensure!(unsettled.is_none(), "{unsettled:?}");
            Ok(())
        })
        .await
        .unwrap();
        self.start_next_leader_at_once().await;
    }

    /// Like `start_next_leader`, for external pods. Pods that are not bound yet stay unchanged.
    ///
    /// # Panics
    ///
    /// When the next leader cannot be started.
    pub async fn start_next_leader_at_once(&mut self) {
        kill(&self.leader);
        super::release_lease(&self.control_plane).await.unwrap();
        let next =
            Operator::start_behind_new_proxy(&self.control_plane, &self.program, &self.launch);
        let (leader, proxy) = next.await.unwrap();
        (self.leader, self.proxy) = (Arc::new(Mutex::new(leader)), proxy);
    }
}

fn kill(leader: &Mutex<Operator>) {
    let mut leader = leader.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = leader.kill();
}

/// Kills the operator after the k-th write, for every k until one is not reached, which `survives`
/// returns.
///
/// # Panics
///
/// When the scenario takes fewer than `minimum` writes.
pub async fn kill_after_every_write(minimum: u64, mut survives: impl AsyncFnMut(u64) -> bool) {
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

/// Returns true if the kubelet has finished its work for the pod.
fn is_settled(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    let annotations = pod.metadata.annotations.as_ref();
    let hangs = annotations
        .and_then(|a| a.get(HANG))
        .is_some_and(|hangs| hangs == "true");
    pod.metadata.deletion_timestamp.is_none() && (hangs || phase != Some("Pending"))
}
