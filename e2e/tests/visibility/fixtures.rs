//! One control plane for all tests that break nothing, with an operator that the API server asks.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use tokio::sync::OnceCell;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::visibility;

pub(crate) fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// A control plane, an operator on it, and the port that the API server asks it on.
pub(crate) struct VisibilityFixture {
    pub(crate) control_plane: ControlPlane,
    pub(crate) operator: Operator,
    pub(crate) port: u16,
}

impl VisibilityFixture {
    /// One of a test's own.
    pub(crate) async fn new() -> Result<Self> {
        let control_plane = operator::start_control_plane().await?;
        let port = free_port()?;
        visibility::install(&control_plane, port).await?;
        let operator = visibility::start(&control_plane, operator_program(), port).await?;
        visibility::wait_for_availability(&control_plane, true).await?;
        Ok(Self {
            control_plane,
            operator,
            port,
        })
    }

    /// Creates a site for one test, with this many nodes of 8 GPUs.
    pub(crate) async fn create_site(&self, prefix: &str, nodes: usize) -> TestSite {
        TestSite::new(
            &self.control_plane,
            prefix,
            NodeTemplate::new(nodes).gpus(8),
        )
        .await
    }

    /// kubectl in the name of a ServiceAccount that may `view` its namespace: whether it
    /// succeeds, and what it says.
    pub(crate) async fn run_kubectl(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> (bool, String) {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let arguments = [&[kubeconfig.as_str()], arguments].concat();
        let output = self.control_plane.kubectl(&arguments).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        (output.status.success(), said)
    }

    /// The kubeconfig of a new ServiceAccount of the site's namespace with the role `view` in it.
    pub(crate) async fn viewer_kubeconfig(&self, site: &TestSite) -> PathBuf {
        let viewer = visibility::viewer_kubeconfig(&self.control_plane, site.name()).await;
        viewer.unwrap()
    }

    /// A queue of the site's name with this many GPUs, in which jobs of other tests have no
    /// positions.
    pub(crate) async fn create_queue(&self, site: &TestSite, gpus: u32) {
        let object = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": site.name()},
            "spec": {"namespaceSelector": {}, "resourceGroups": [{
                "coveredResources": ["nvidia.com/gpu", "cpu", "memory"],
                "flavors": [{"name": "default", "resources": [
                    {"name": "nvidia.com/gpu", "nominalQuota": gpus.to_string()},
                    {"name": "cpu", "nominalQuota": "100"},
                    {"name": "memory", "nominalQuota": "1Ti"}]}]}]},
        });
        let object = object.to_string();
        let applied = self.control_plane.apply_yaml(&object);
        applied.await.unwrap();
    }
}

static SHARED_FIXTURE: OnceCell<VisibilityFixture> = OnceCell::const_new();

pub(crate) async fn shared_fixture() -> &'static VisibilityFixture {
    let scene = SHARED_FIXTURE.get_or_try_init(VisibilityFixture::new).await;
    scene.unwrap()
}
