//! Karpenter buys nodes for placeholder pods: pods that no scheduler binds. The tests check the
//! behaviour of Karpenter and of the Job controller that Trellis relies on. They act as the
//! operator.

mod fixtures;
mod hand_over;
mod placeholder_job;
mod purchase;

use tokio::sync::OnceCell;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::karpenter::{self, Karpenter};

/// The control plane of this test process, with one Karpenter on it.
async fn shared_control_plane() -> &'static ControlPlane {
    static KARPENTER: OnceCell<Karpenter> = OnceCell::const_new();
    let options = || ControlPlaneOptions {
        manifests: karpenter::crds().unwrap(),
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::shared_with(options).await.unwrap();
    let start = async || Karpenter::start(control_plane, &[]).await.unwrap();
    KARPENTER.get_or_init(start).await;
    control_plane
}
