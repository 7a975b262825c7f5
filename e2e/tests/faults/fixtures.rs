//! Setup that most of these tests share.

use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::Proxy;
use trellis_e2e::site::TestSite;

use super::operator_program;

/// A control plane for one test, with a site for jobs and an operator behind a proxy. The lease
/// outlives all faults of the operator, because no other operator runs.
pub(crate) struct FaultFixture {
    pub(crate) site: TestSite,
    pub(crate) proxy: Proxy,
    pub(crate) operator: Operator,
    pub(crate) control_plane: ControlPlane,
}

impl FaultFixture {
    /// Starts the scene with this number of nodes with 8 GPUs.
    pub(crate) async fn new(prefix: &str, nodes: usize) -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        let launch = LaunchOptions::with_name("operator").lease_seconds(60);
        let (operator, proxy) =
            Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
                .await
                .unwrap();
        let site = TestSite::new(&control_plane, prefix, NodeTemplate::new(nodes).gpus(8)).await;
        Self {
            site,
            proxy,
            operator,
            control_plane,
        }
    }
}
