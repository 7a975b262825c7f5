//! Operators that lead one after the other, each until it is killed.

use std::sync::{Arc, Mutex};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::{Jobs, SOON};
use trellis_e2e::kubelet::HANG;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fired, Moment, Proxy, Request};
use trellis_e2e::wait::eventually;

use super::program;

/// A control plane and its current leader. The leader that finishes the work of a killed one is the
/// next to be killed.
pub(crate) struct Succession {
    pub(crate) control_plane: ControlPlane,
    leader: Arc<Mutex<Operator>>,
    proxy: Proxy,
}

impl Succession {
    /// With its first leader.
    pub(crate) async fn begin() -> Self {
        let control_plane = operator::control_plane().await.unwrap();
        let (leader, proxy) = start(&control_plane).await;
        Self {
            control_plane,
            leader,
            proxy,
        }
    }

    /// Kills the leader after its k-th write from now on that `matches`.
    pub(crate) fn kill_after(
        &self,
        k: u64,
        moment: Moment,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Fired {
        let victim = Arc::clone(&self.leader);
        self.proxy.after_write(k, moment, matches, move || {
            let _ = victim.lock().unwrap().kill();
        })
    }

    /// Kills the leader if it still lives, and starts another.
    ///
    /// While a lease runs out, kubelets get on with the pods that they have. This function waits
    /// for them and releases the lease, so that the next leader finds the state that it would find
    /// after the lease.
    pub(crate) async fn next(&mut self, jobs: &Jobs) {
        let _ = self.leader.lock().unwrap().kill();
        eventually(SOON, || async {
            let pods = jobs.api::<Pod>().list(&Default::default()).await?;
            let unsettled = pods.iter().find(|pod| !is_settled(pod));
            ensure!(unsettled.is_none(), "{unsettled:?}");
            Ok(())
        })
        .await
        .unwrap();
        self.next_at_once().await;
    }

    /// The same of pods that no leader has created: those that are not bound yet stay as they are.
    pub(crate) async fn next_at_once(&mut self) {
        let _ = self.leader.lock().unwrap().kill();
        operator::give_lease_back(&self.control_plane)
            .await
            .unwrap();
        (self.leader, self.proxy) = start(&self.control_plane).await;
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

async fn start(control_plane: &ControlPlane) -> (Arc<Mutex<Operator>>, Proxy) {
    let launch = Launch::named("operator");
    let (operator, proxy) = Operator::behind_proxy(control_plane, program(), &launch)
        .await
        .unwrap();
    (Arc::new(Mutex::new(operator)), proxy)
}
