//! One control plane for all tests without faults, with an operator that serves the API group.

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

/// A control plane, an operator, and the port on which the operator serves the API group.
pub(crate) struct VisibilityFixture {
    pub(crate) control_plane: ControlPlane,
    pub(crate) operator: Operator,
    pub(crate) port: u16,
}

impl VisibilityFixture {
    /// Starts a scene for one test.
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

    /// Runs kubectl as a ServiceAccount with the role `view` in its namespace. Returns whether it
    /// succeeds, and its output.
    pub(crate) async fn run_kubectl(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> (bool, String) {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let arguments = [&[kubeconfig.as_str()], arguments].concat();
        let output = self.control_plane.kubectl(&arguments).await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        (output.status.success(), text)
    }

    /// Writes the kubeconfig of a new ServiceAccount with the role `view` in the site's namespace.
    pub(crate) async fn viewer_kubeconfig(&self, site: &TestSite) -> PathBuf {
        let viewer = visibility::viewer_kubeconfig(&self.control_plane, site.name()).await;
        viewer.unwrap()
    }

    /// Gives the ServiceAccount of [`Self::viewer_kubeconfig`] the role `trellis-platform`.
    pub(crate) async fn grant_platform_role(&self, site: &TestSite) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": site.name()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trellis-platform"},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": site.name()}],
        });
        let binding = binding.to_string();
        self.control_plane.apply_yaml(&binding).await.unwrap();
    }

    /// Gives the ServiceAccount of [`Self::viewer_kubeconfig`] a role in the site's namespace.
    pub(crate) async fn grant_role(&self, site: &TestSite, role: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": site.name()}],
        });
        let binding = binding.to_string();
        let applied = self.control_plane.apply_yaml_in(site.name(), &binding);
        applied.await.unwrap();
    }

    /// Creates a queue with the name of the site and this number of GPUs. It contains no jobs of
    /// other tests.
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
