//! External pods that Trellis binds, on a real control plane and with the rights of the chart.

mod alone;
mod counted;
mod ephemeral;
mod gang;
mod late;
mod preemption;
mod refusals;
mod scene;

use std::path::Path;

use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::site::Site;

/// The control plane of this test process, with one operator on it.
async fn shared() -> &'static ControlPlane {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    operator::shared(program).await.unwrap()
}

/// Creates a site for one test, with this many nodes of 8 GPUs.
async fn site(prefix: &str, nodes: usize) -> Site {
    Site::new(shared().await, prefix, Nodes::new(nodes).gpus(8)).await
}
