//! Policies on a real control plane: a denied job creates no pod and reports the reason.

mod changed_pods;
mod decisions;
mod eviction;
mod fixtures;
mod optional_admission_policies;
mod pod_template;
mod policy_changes;
mod policy_tools;
mod profiles;
mod quota_policies;
mod requester;
mod users;
mod webhook;

use std::path::Path;

use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::site::TestSite;

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// The control plane of this test process, with one operator on it.
async fn shared_control_plane() -> &'static ControlPlane {
    operator::shared_control_plane(operator_program())
        .await
        .unwrap()
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
