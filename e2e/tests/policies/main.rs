//! Policies act: what may not run makes no pod and says why, on a real control plane.

mod between;
mod bounds;
mod broken;
mod changed_pods;
mod changes;
mod confined;
mod decides;
mod evict;
mod hostile;
mod keys;
mod people;
mod plan;
mod pod_template;
mod profiles;
mod quotas;
mod requester;
mod restart;
mod scene;
mod stale;
mod stamp;
mod swapped;
mod tools;
mod webhook;
mod webhook_certificate;

use std::path::Path;

use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::site::Site;

/// The operator under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// The control plane of this test process, with one operator on it.
async fn shared() -> &'static ControlPlane {
    operator::shared(program()).await.unwrap()
}

/// Creates a site for one test, with this many nodes of 8 GPUs.
async fn site(prefix: &str, nodes: usize) -> Site {
    Site::new(shared().await, prefix, Nodes::new(nodes).gpus(8)).await
}
