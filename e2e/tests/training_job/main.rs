//! The whole life of a TrainingJob on a real control plane, with the rights of the chart.

mod admission;
mod checkpoints;
mod child_drift;
mod cleanup;
mod default_queue;
mod elastic;
mod endpoint;
mod ephemeral_claims;
mod events;
mod failures;
mod field_validation;
mod frameworks;
mod idle_writes;
mod journal;
mod late_binding;
mod lifecycle;
mod managed_by;
mod name_conflicts;
mod node_constraints;
mod orphans;
mod per_gpu_resources;
mod placement;
mod plan;
mod pod_recovery;
mod preemption;
mod queues;
mod refusals;
mod resource_quotas;
mod resource_validation;
mod runtime_prediction;
mod server_side_apply;
mod stages;
mod traces;
mod version_skew;

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
