//! Setup that most of these tests share.

use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::Proxy;
use trellis_e2e::site::Site;

use super::program;

/// A control plane for one test, with a site for jobs and an operator behind a proxy. The lease
/// outlives all faults of the operator, because no other operator runs.
pub(crate) struct Scene {
    pub(crate) site: Site,
    pub(crate) proxy: Proxy,
    pub(crate) operator: Operator,
    pub(crate) control_plane: ControlPlane,
}

impl Scene {
    /// Starts all of it, with this many nodes of 8 GPUs.
    pub(crate) async fn new(prefix: &str, nodes: usize) -> Self {
        let control_plane = operator::control_plane().await.unwrap();
        let launch = Launch::named("operator").lease_seconds(60);
        let (operator, proxy) = Operator::behind_proxy(&control_plane, program(), &launch)
            .await
            .unwrap();
        let site = Site::new(&control_plane, prefix, Nodes::new(nodes).gpus(8)).await;
        Self {
            site,
            proxy,
            operator,
            control_plane,
        }
    }
}
