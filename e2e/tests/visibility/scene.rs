//! One control plane for all tests that break nothing, with an operator that the API server asks.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, ACCOUNT, NAMESPACE, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::visibility;

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// A control plane, an operator on it, and the port that the API server asks it on.
pub(crate) struct Scene {
    pub(crate) control_plane: ControlPlane,
    pub(crate) operator: Operator,
    pub(crate) port: u16,
}

impl Scene {
    /// One of a test's own.
    pub(crate) async fn new() -> Result<Self> {
        let control_plane = operator::control_plane().await?;
        let port = free_port()?;
        visibility::install(&control_plane, port).await?;
        let operator = start(&control_plane, port).await?;
        visibility::becomes(&control_plane, true).await?;
        Ok(Self {
            control_plane,
            operator,
            port,
        })
    }

    /// A place of a test's own, with so many nodes of 8 GPUs.
    pub(crate) async fn site(&self, prefix: &str, nodes: usize) -> Site {
        Site::new(&self.control_plane, prefix, Nodes::new(nodes).gpus(8)).await
    }

    /// kubectl in the name of a ServiceAccount that may `view` its namespace: whether it
    /// succeeds, and what it says.
    pub(crate) async fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> (bool, String) {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let arguments = [&[kubeconfig.as_str()], arguments].concat();
        let output = self.control_plane.kubectl(&arguments).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        (output.status.success(), said)
    }

    /// The kubeconfig of a new ServiceAccount of the site's namespace with the role `view` in it.
    pub(crate) async fn viewer(&self, site: &Site) -> PathBuf {
        let name = "viewer";
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": site.name()}],
        });
        for object in [account, binding] {
            self.apply(site, &object).await;
        }
        let control_plane = &self.control_plane;
        let kubeconfig = control_plane.service_account_kubeconfig(site.name(), name);
        kubeconfig.await.unwrap()
    }

    pub(crate) async fn apply(&self, site: &Site, object: &Value) {
        let control_plane = &self.control_plane;
        let object = object.to_string();
        let applied = control_plane.apply_yaml_in(site.name(), &object).await;
        applied.unwrap();
    }
}

/// An operator under the chart's rights that serves the group on this port.
pub(crate) async fn start(control_plane: &ControlPlane, port: u16) -> Result<Operator> {
    let account = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT);
    let kubeconfig = account.await?;
    let launch = visibility::launch("operator", port).lease_seconds(60);
    Operator::launch(control_plane, program(), &kubeconfig, &launch)
}

static SHARED: OnceCell<Scene> = OnceCell::const_new();

pub(crate) async fn shared() -> &'static Scene {
    let scene = SHARED.get_or_try_init(Scene::new).await;
    scene.unwrap()
}
