//! The whole life of a TrainingJob on a real control plane, with the rights of the chart.

mod elastic;
mod endpoint;
mod events;
mod frameworks;
mod idle_writes;
mod lifecycle;
mod objects;
mod placement;
mod plan;
mod queues;
mod replica_groups;
mod traces;
mod validation;

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
