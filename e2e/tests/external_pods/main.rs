//! External pods that Trellis binds, on a real control plane and with the rights of the chart.

mod ephemeral_claims;
mod fixtures;
mod gang;
mod late_binding;
mod preemption;
mod queue_usage;
mod refusals;
mod single_pods;

use std::path::Path;

use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::site::TestSite;

/// The control plane of this test process, with one operator on it.
async fn shared_control_plane() -> &'static ControlPlane {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    operator::shared_control_plane(program).await.unwrap()
}

/// Creates a site for one test, with this many nodes of 8 GPUs.
async fn create_site(prefix: &str, nodes: usize) -> TestSite {
    TestSite::new(
        shared_control_plane().await,
        prefix,
        NodeTemplate::new(nodes).gpus(8),
    )
    .await
}
