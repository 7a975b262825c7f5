//! Setup that these tests share: control planes with nodes, an operator and an Argo CD.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use trellis_e2e::argocd::{self, ArgoCd, GitOpsProgram, Repository};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;

/// Longest time of an operation of Argo CD on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A control plane with an operator and an Argo CD. They end in this order.
pub(crate) struct GitOpsFixture {
    pub(crate) argocd: ArgoCd,
    _operator: Operator,
    pub(crate) control_plane: ControlPlane,
}

impl GitOpsFixture {
    /// Starts Argo CD with the settings of docs/gitops.md and further settings.
    async fn start(settings: &[(&str, &str)]) -> Result<Self> {
        let control_plane = operator::start_control_plane().await?;
        let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
        let kubeconfig = operator::kubeconfig(&control_plane, operator::POD).await?;
        // The operator must not lose its lease on a busy machine.
        let launch = LaunchOptions::with_name("operator").lease_seconds(60);
        let operator =
            Operator::launch_with_options(&control_plane, program, &kubeconfig, &launch)?;
        let argocd = ArgoCd::start(&control_plane, settings, &[]).await?;
        let health = docs_path("argocd-cm.yaml").display().to_string();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", &health];
        control_plane.kubectl_ok(&apply).await?;
        Ok(Self {
            argocd,
            _operator: operator,
            control_plane,
        })
    }

    /// Creates a site with this number of nodes with 8 GPUs.
    pub(crate) async fn create_site(&self, nodes: usize) -> TestSite {
        TestSite::new(
            &self.control_plane,
            "gitops",
            NodeTemplate::new(nodes).gpus(8),
        )
        .await
    }

    /// Runs `trellis` in the namespace of a site as an administrator. Returns standard output and
    /// standard error.
    pub(crate) async fn run_trellis(
        &self,
        site: &TestSite,
        arguments: &[&str],
    ) -> Result<(String, String)> {
        let output = Command::new(env!("CARGO_BIN_EXE_trellis-under-test"))
            .args(arguments)
            .args(["-n", site.name(), "--timeout", "60s"])
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .kill_on_drop(true)
            .output()
            .await?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        Ok((
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        ))
    }

    /// Returns an Application for the root of a repository, with the name of the site. Failed syncs
    /// are not retried, because a test would have to wait for the retries.
    pub(crate) fn application_for(&self, site: &TestSite, repository: &Repository) -> Value {
        let mut application =
            argocd::application_manifest(site.name(), repository, ".", site.name());
        application["spec"]["syncPolicy"]["retry"] = json!({"limit": 0});
        application
    }
}

/// Returns the path of a file or folder of docs/gitops.
pub(crate) fn docs_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/gitops")
        .join(path)
}

/// Returns a queue for jobs of all namespaces.
pub(crate) fn queue_manifest(name: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}},
    })
}

/// Returns a policy that forbids images which no test uses.
pub(crate) fn policy_manifest(name: &str) -> Value {
    let forbid = "forbid(principal, action == Trellis::Action::\"UseImage\", resource) \
        when { resource has registry && resource.registry == \"elsewhere.example\" };";
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "JobPolicy",
        "metadata": {"name": name},
        "spec": {"cedar": forbid},
    })
}

/// Adds an annotation.
pub(crate) fn with_annotation(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = json!(value);
    object
}

/// Creates a repository with these objects in one file, `all.yaml`.
pub(crate) fn repository_with(objects: &[Value]) -> Result<Repository> {
    Repository::create_with_files(&[("all.yaml", &objects_yaml(objects))])
}

/// Returns objects as text. JSON is YAML.
pub(crate) fn objects_yaml(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

type SharedFixture = LazyLock<Mutex<Option<Arc<GitOpsFixture>>>>;
static SHARED_FIXTURE: SharedFixture = LazyLock::new(Mutex::default);

async fn shared_fixture() -> Result<Arc<GitOpsFixture>> {
    let mut scene = SHARED_FIXTURE.lock().await;
    if let Some(scene) = &*scene {
        return Ok(Arc::clone(scene));
    }
    let started = Arc::new(GitOpsFixture::start(&[]).await?);
    *scene = Some(Arc::clone(&started));
    Ok(started)
}

fn ignorable_trial(
    name: &'static str,
    program: GitOpsProgram,
    test: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || match argocd::unavailable_reason(program) {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => match test() {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

/// Returns a test on the shared control plane, whose Argo CD tracks by annotation, the default.
pub(crate) fn cluster_trial(
    name: &'static str,
    test: impl AsyncFnOnce(&GitOpsFixture) -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, GitOpsProgram::ArgoCd, move || {
        RUNTIME.block_on(async {
            let scene = shared_fixture().await.context("start Argo CD")?;
            let tested = test(&scene).await;
            tested.with_context(|| scene.argocd.recent_errors())
        })
    })
}

/// Returns a test on its own control plane, whose Argo CD tracks by label, as before 3.0.
pub(crate) fn label_tracking_trial(
    name: &'static str,
    test: impl AsyncFnOnce(&GitOpsFixture) -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, GitOpsProgram::ArgoCd, move || {
        RUNTIME.block_on(async {
            let label = [("application.resourceTrackingMethod", "label")];
            let scene = GitOpsFixture::start(&label)
                .await
                .context("start Argo CD")?;
            test(&scene).await
        })
    })
}

/// Returns a test on its own control plane without Trellis.
pub(crate) fn bare_cluster_trial(
    name: &'static str,
    test: impl AsyncFnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, GitOpsProgram::ArgoCd, move || {
        RUNTIME.block_on(test())
    })
}

/// Returns a test of Argo CD's code, without a cluster.
pub(crate) fn argocd_trial(
    name: &'static str,
    test: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, GitOpsProgram::ArgoCd, test)
}

/// Returns a test of the status that Flux computes for our objects, without a cluster.
pub(crate) fn kstatus_trial(
    name: &'static str,
    test: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, GitOpsProgram::Kstatus, test)
}

/// Returns a test of files.
pub(crate) fn files_trial(
    name: &'static str,
    test: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        test().map_err(|error| Failed::from(format!("{error:#}")))
    })
}
