//! One TrainingJob, all the way, on a real control plane under the chart's own rights.

mod admission;
mod appliers;
mod checkpoints;
mod cleanup;
mod defaults;
mod drift;
mod elastic;
mod endpoint;
mod ephemeral;
mod failures;
mod frameworks;
mod journal;
mod kinds;
mod late_binding;
mod lifecycle;
mod managed_by;
mod namesake;
mod nodes;
mod orphans;
mod per_gpu;
mod placement;
mod plan;
mod preemption;
mod queues;
mod quiet;
mod quotas;
mod recovery;
mod refusals;
mod runtimes;
mod stages;
mod story;
mod traces;
mod versions;

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
