//! Two real nodes with the operator's image, on which tests install the chart.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::helm::Helm;
use trellis_e2e::operator::NAMESPACE;
use trellis_e2e::process::Process;
use trellis_e2e::real_nodes::{self, IMAGE_NAME, RealNode, RealNodes};
use trellis_e2e::site::jobs::phase;
use trellis_e2e::wait::wait_for;

use crate::fixtures::ignorable_trial;
use crate::install::image;

/// Longest time for a job, or until a new leader leads.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for which Helm waits for two operators.
pub(crate) const WAIT_FLAGS: [&str; 2] = ["--wait", "--timeout=3m"];

/// Returns a test on real nodes. It is ignored if this machine cannot run nodes, or the image is
/// missing.
pub(crate) fn trial(
    name: &'static str,
    test: impl AsyncFnOnce(Helm) -> Result<()> + Send + 'static,
) -> Trial {
    trial_with(name, || None, test)
}

/// Like [`trial`]. `unable` may return another reason to ignore the test.
pub(crate) fn trial_with(
    name: &'static str,
    unable: fn() -> Option<String>,
    test: impl AsyncFnOnce(Helm) -> Result<()> + Send + 'static,
) -> Trial {
    let unavailable = move || {
        let reason = real_nodes::unavailable_reason().or_else(image::unavailable_reason);
        reason.or_else(unable)
    };
    ignorable_trial(name, unavailable, test)
}

/// The nodes, the processes that they need, and the namespace of the release, which enforces the
/// most restrictive Pod Security level.
pub(crate) struct ChartCluster {
    // The fields are dropped in this order.
    _scheduler: Process,
    _api: Process,
    real: RealNodes,
    pub(crate) control_plane: ControlPlane,
}

impl ChartCluster {
    /// Starts the nodes on a control plane with these kinds.
    pub(crate) async fn start(manifests: Vec<String>) -> Result<Self> {
        let options = ControlPlaneOptions {
            manifests,
            tunnels_to_pods: true,
            ..ControlPlaneOptions::default()
        };
        let control_plane = ControlPlane::start(real_nodes::with_real_nodes(options)).await?;
        let nodes = ["one", "two"].map(|name| RealNode::new(name, 4));
        let real = RealNodes::start(&control_plane, &nodes).await?;
        let archive = image::build_image(control_plane.folder())?;
        for node in &nodes {
            real.import_image(&node.name, &archive)?;
        }
        real.serve_pod_connections(&control_plane)?;
        let api = real.expose_api_service(&control_plane)?;
        let scheduler = real_nodes::start_kube_scheduler(&control_plane).await?;
        let namespace = json!({"metadata": {"name": NAMESPACE,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        let namespaces: Api<Namespace> = Api::all(control_plane.client());
        let namespace = serde_json::from_value(namespace)?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(Self {
            _scheduler: scheduler,
            _api: api,
            real,
            control_plane,
        })
    }

    /// Installs the chart and waits until it is ready. Returns the output of Helm.
    pub(crate) async fn install(&self, helm: &Helm, values: &Value) -> Result<String> {
        match helm.run_chart_command("install", NAMESPACE, values, &WAIT_FLAGS) {
            Ok(said) => Ok(said),
            Err(error) => anyhow::bail!("{error:#}\n{}", self.diagnostics().await),
        }
    }

    /// Returns the operators' pods.
    pub(crate) async fn operator_pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.control_plane.client(), NAMESPACE);
        let params = ListParams::default().labels("app.kubernetes.io/name=trellis-operator");
        Ok(pods.list(&params).await?.items)
    }

    /// Connects to a port of a pod.
    pub(crate) fn connect_to_pod(&self, pod: &Pod, port: u16) -> Result<std::net::TcpStream> {
        let status = pod.status.as_ref();
        let address = status.and_then(|status| status.pod_ip.as_deref());
        let address: IpAddr = address.context("a pod without an address")?.parse()?;
        self.real.connect_to_pod(SocketAddr::new(address, port))
    }

    /// Runs a gang on both nodes to its end.
    pub(crate) async fn run_gang(&self, name: &str) -> Result<()> {
        self.control_plane
            .apply_yaml(&gang_job(name).to_string())
            .await?;
        self.run_job(name).await
    }

    /// Runs a job to its end.
    pub(crate) async fn run_job(&self, name: &str) -> Result<()> {
        let jobs: Api<TrainingJob> = Api::namespaced(self.control_plane.client(), "default");
        let is_complete = |job: &TrainingJob| phase(job) == Some(JobPhase::Complete);
        wait_for(&jobs, name, READY_TIMEOUT, is_complete).await?;
        Ok(())
    }

    /// Returns pods, events and logs, which show why operators do not become ready.
    async fn diagnostics(&self) -> String {
        let mut story = String::new();
        for arguments in [
            "get pods,events -n trellis-system -o wide",
            "logs -n trellis-system -l app.kubernetes.io/name=trellis-operator --prefix --tail=20",
        ] {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            match self.control_plane.kubectl(&arguments).await {
                Ok(output) => {
                    story.push_str(&String::from_utf8_lossy(&output.stdout));
                    story.push_str(&String::from_utf8_lossy(&output.stderr));
                }
                Err(error) => story.push_str(&error.to_string()),
            }
        }
        story
    }
}

/// Returns a gang for both nodes.
pub(crate) fn gang_job(name: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"taskGroups": [{
            "name": "worker", "replicas": 2, "gpus": 4, "image": IMAGE_NAME,
            "command": ["sh", "-c", "echo rank $TRELLIS_RANK"],
            "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}},
        }]},
    })
}
