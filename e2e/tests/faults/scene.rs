//! What most of these tests begin with.

use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::Proxy;
use trellis_e2e::site::Site;

use super::program;

/// A control plane of a test's own, a place on it for jobs, and an operator that sees it through
/// a proxy. The lease outlives what is done to the operator: nobody else is to lead.
pub(crate) struct Scene {
    pub(crate) site: Site,
    pub(crate) proxy: Proxy,
    pub(crate) operator: Operator,
    pub(crate) control_plane: ControlPlane,
}

impl Scene {
    /// With so many nodes of 8 GPUs.
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
