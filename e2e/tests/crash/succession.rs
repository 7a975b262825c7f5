//! Operators that lead one after the other, each until the test kills it.

use std::sync::{Arc, Mutex};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::kubelet::HANG;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, Request, TrapHandle, TrapTiming};
use trellis_e2e::site::jobs::{SOON, TestJobs};
use trellis_e2e::wait::eventually;

use super::operator_program;

/// A control plane and its current leader. The leader that finishes the work of a killed one is the
/// next to be killed.
pub(crate) struct Succession {
    pub(crate) control_plane: ControlPlane,
    leader: Arc<Mutex<Operator>>,
    proxy: Proxy,
}

impl Succession {
    /// Starts the first leader.
    pub(crate) async fn start() -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        let (leader, proxy) = start_leader(&control_plane).await;
        Self {
            control_plane,
            leader,
            proxy,
        }
    }

    /// Kills the leader after its k-th write from now on that `matches`.
    pub(crate) fn kill_after_write(
        &self,
        k: u64,
        moment: TrapTiming,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> TrapHandle {
        let victim = Arc::clone(&self.leader);
        self.proxy.call_after_write(k, moment, matches, move || {
            let _ = victim.lock().unwrap().kill();
        })
    }

    /// Kills the leader if it still lives, and starts another.
    ///
    /// Until a lease expires, kubelets process their pods. This function waits for them and then
    /// releases the lease, so that the next leader finds the same state as after an expiry.
    pub(crate) async fn start_next_leader(&mut self, jobs: &TestJobs) {
        let _ = self.leader.lock().unwrap().kill();
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
    pub(crate) async fn start_next_leader_at_once(&mut self) {
        let _ = self.leader.lock().unwrap().kill();
        operator::release_lease(&self.control_plane).await.unwrap();
        (self.leader, self.proxy) = start_leader(&self.control_plane).await;
    }
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

async fn start_leader(control_plane: &ControlPlane) -> (Arc<Mutex<Operator>>, Proxy) {
    let launch = LaunchOptions::with_name("operator");
    let (operator, proxy) =
        Operator::start_behind_new_proxy(control_plane, operator_program(), &launch)
            .await
            .unwrap();
    (Arc::new(Mutex::new(operator)), proxy)
}
