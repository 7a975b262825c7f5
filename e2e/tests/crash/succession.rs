//! Operators that lead one after the other, each until it is killed.

use std::sync::{Arc, Mutex};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::{SOON, TestJobs};
use trellis_e2e::kubelet::HANG;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, Request, TrapHandle, TrapTiming};
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
    /// With its first leader.
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
    /// While a lease runs out, kubelets get on with the pods that they have. This function waits
    /// for them and releases the lease, so that the next leader finds the state that it would find
    /// after the lease.
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

    /// The same of pods that no leader has created: those that are not bound yet stay as they are.
    pub(crate) async fn start_next_leader_at_once(&mut self) {
        let _ = self.leader.lock().unwrap().kill();
        operator::release_lease(&self.control_plane).await.unwrap();
        (self.leader, self.proxy) = start_leader(&self.control_plane).await;
    }
}

/// True if the kubelet has nothing more to do for the pod.
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
