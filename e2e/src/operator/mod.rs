//! The operator on a control plane. It is installed from the chart's own files and runs with the
//! rights of its own ServiceAccount, so that a missing right fails a test.

mod crds;
mod deployed;
mod process;
mod succession;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::OnceCell;
use trellis_api::{TrainingJob, names};

use crate::admission::operator_webhook;
use crate::binaries::KubernetesVersion;
use crate::control_plane::{ControlPlane, ControlPlaneOptions};
use crate::wait::eventually;

pub use crds::chart_crds;
pub use deployed::start_as_deployed;
pub use process::{LaunchOptions, Operator, process_cpu_seconds};
pub use succession::{LATE_WRITE_TIME, RECOVERY_TIMEOUT, Succession, kill_after_every_write};

/// Namespace of the operator.
pub const NAMESPACE: &str = "trellis-system";
/// ServiceAccount of the operator.
pub const SERVICE_ACCOUNT: &str = "trellis-operator";
/// User name of the operator's service account.
pub const OPERATOR_USER: &str = "system:serviceaccount:trellis-system:trellis-operator";
/// The pod of an operator, unless a test starts several.
pub const POD: &str = "operator";
/// The Lease of the leader.
pub const LEASE_NAME: &str = "trellis-operator";

/// Longest time until the API server compares writes with the term of a new leader. It looks for
/// the kinds of policies' parameters every 30 seconds. The leader looks for its term every minute.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time until the API server accepts jobs.
const JOB_CREATION_TIMEOUT: Duration = Duration::from_secs(30);

fn read_chart_file(file: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../charts/trellis/files")
        .join(file);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Returns the options of a control plane that knows the kinds of Trellis from its start, because
/// the garbage collector checks for new kinds only from time to time.
///
/// # Errors
/// If the chart's files cannot be read.
pub fn control_plane_options() -> Result<ControlPlaneOptions> {
    Ok(ControlPlaneOptions {
        manifests: chart_crds(KubernetesVersion::chosen()?)?,
        ..ControlPlaneOptions::default()
    })
}

/// Installs the objects of the chart apart from the CRDs: roles, admission policies, the default
/// queue and the starter set of policies.
///
/// # Errors
/// If the API server refuses an object.
pub async fn install_chart_objects(control_plane: &ControlPlane) -> Result<()> {
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n");
    control_plane.apply_yaml(&namespace).await?;
    let requester_policy = "requester-policy.yaml";
    let has_policy = KubernetesVersion::chosen()?.has_mutating_policies();
    for file in [
        "rbac.yaml",
        "rbac-webhook.yaml",
        "admission.yaml",
        requester_policy,
        "admission-networks.yaml",
        "admission-operator.yaml",
        "admission-leader.yaml",
        "queue.yaml",
        "policies.yaml",
    ] {
        if file != requester_policy || has_policy {
            control_plane.apply_yaml(&read_chart_file(file)?).await?;
        }
    }
    wait_until_jobs_accepted(control_plane).await
}

/// Namespace of placeholder pods, as in the chart.
pub const PLACEHOLDER_NAMESPACE: &str = "trellis-capacity";

/// Installs the objects of the chart by which the operator asks autoscalers for nodes.
///
/// # Errors
/// If the API server refuses an object.
pub async fn install_placeholder_objects(control_plane: &ControlPlane) -> Result<()> {
    let rights = read_chart_file("rbac-provisioning.yaml")?;
    let rights = rights.replace(
        "namespace: NAMESPACE",
        &format!("namespace: {PLACEHOLDER_NAMESPACE}"),
    );
    for objects in [read_chart_file("placeholders.yaml")?, rights] {
        control_plane.apply_yaml(&objects).await?;
    }
    Ok(())
}

/// Waits until a job can be created, and gets a requester stamp if an admission policy of the chart
/// writes it. The API server reads the schemas of kinds that its admission policies change only
/// every 5 seconds, and refuses jobs until then.
///
/// # Errors
/// If this takes too long.
pub async fn wait_until_jobs_accepted(control_plane: &ControlPlane) -> Result<()> {
    let has_policy = KubernetesVersion::chosen()?.has_mutating_policies();
    try_job(control_plane, has_policy).await
}

/// Waits until a job can be created and gets a requester stamp.
///
/// # Errors
/// If this takes too long.
pub async fn wait_until_jobs_stamped(control_plane: &ControlPlane) -> Result<()> {
    try_job(control_plane, true).await
}

async fn try_job(control_plane: &ControlPlane, needs_stamp: bool) -> Result<()> {
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    let group = json!({"name": "worker", "image": "registry.example/train:1.0",
        "command": ["train"], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    let job = json!({"metadata": {"generateName": "try-"}, "spec": {"taskGroups": [group]}});
    let job = serde_json::from_value(job)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(JOB_CREATION_TIMEOUT, || async {
        let tried: TrainingJob = jobs.create(&dry_run, &job).await?;
        let is_stamped = tried.annotations().contains_key(names::REQUESTED_BY);
        anyhow::ensure!(is_stamped || !needs_stamp, "a new job has no stamp");
        Ok(())
    })
    .await
}

/// Returns a token of the operator's ServiceAccount, bound to the operator's pod, as a kubelet
/// mounts it. The API server recognizes the leader by its pod. No kubelet runs the pod: the test
/// runs the program.
///
/// # Errors
/// If the pod or the token cannot be created.
pub async fn token(control_plane: &ControlPlane, pod_name: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    let pod = json!({
        "metadata": {"name": pod_name},
        "spec": {
            "serviceAccountName": SERVICE_ACCOUNT, "schedulerName": "none",
            "containers": [{"name": "operator", "image": "registry.example/trellis"}],
        },
    });
    let pod = serde_json::from_value(pod)?;
    if let Err(error) = pods.create(&PostParams::default(), &pod).await
        && !matches!(&error, kube::Error::Api(status) if status.code == 409)
    {
        return Err(error).with_context(|| format!("create pod {pod_name}"));
    }
    control_plane
        .pod_token(NAMESPACE, SERVICE_ACCOUNT, pod_name)
        .await
}

/// Returns a client with the [`token`] of an operator.
///
/// # Errors
/// If the token cannot be created.
pub async fn client(control_plane: &ControlPlane, pod_name: &str) -> Result<Client> {
    let token = token(control_plane, pod_name).await?;
    control_plane.client_as(json!({"token": token}))
}

/// Waits until the API server refuses the writes of an operator in this pod, because another
/// replica leads.
///
/// # Errors
/// If this takes too long.
pub async fn wait_until_refused(
    control_plane: &ControlPlane,
    pod_name: &str,
    namespace: &str,
) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client(control_plane, pod_name).await?, namespace);
    let (dry_run, pod) = trial_pod()?;
    eventually(REFUSAL_TIMEOUT, || async {
        match pods.create(&dry_run, &pod).await {
            Err(kube::Error::Api(status)) if status.message.contains("'trellis-leader'") => Ok(()),
            answer => anyhow::bail!("{answer:?}"),
        }
    })
    .await
}

/// Returns a pod that an operator may create, and the parameters of a dry run.
///
/// # Errors
/// Never: the pod is valid.
pub fn trial_pod() -> Result<(PostParams, Pod)> {
    let pod = json!({
        "metadata": {"name": "try"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/try"}]},
    });
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    Ok((dry_run, serde_json::from_value(pod)?))
}

/// Returns the kubeconfig for the [`token`] of an operator.
///
/// # Errors
/// If the token cannot be created or the file cannot be written.
pub async fn kubeconfig(control_plane: &ControlPlane, pod_name: &str) -> Result<PathBuf> {
    let token = token(control_plane, pod_name).await?;
    control_plane.kubeconfig_for_token(&format!("operator-{pod_name}"), &token)
}

static OPERATOR: OnceCell<Operator> = OnceCell::const_new();

/// Returns the control plane that all tests of this process share, with one operator. The first
/// call starts them.
///
/// # Errors
/// If the control plane or the operator cannot be started.
pub async fn shared_control_plane(program: &Path) -> Result<&'static ControlPlane> {
    let options = control_plane_options()?;
    let control_plane = ControlPlane::shared_with(|| options).await?;
    let start = async || {
        install_chart_objects(control_plane).await?;
        let kubeconfig = kubeconfig(control_plane, POD).await?;
        // No other operator runs, so the lease is long: on a busy machine, this operator must not
        // lose it.
        let folder = control_plane.folder().join(SNAPSHOTS_FOLDER);
        std::fs::create_dir_all(&folder)?;
        let launch = LaunchOptions::with_name("operator")
            .lease_seconds(60)
            .argument("--listen=127.0.0.1:0")
            .argument("--health=127.0.0.1:0")
            .argument(&format!("--snapshots={}", folder.display()));
        let launch = operator_webhook::stamp_jobs(control_plane, launch).await?;
        let operator = Operator::launch_with_options(control_plane, program, &kubeconfig, &launch)?;
        wait_until_jobs_stamped(control_plane).await?;
        anyhow::Ok(operator)
    };
    OPERATOR.get_or_try_init(start).await?;
    Ok(control_plane)
}

/// Returns the operator of [`shared_control_plane`].
///
/// # Errors
/// If it has not been started.
pub fn shared_operator() -> Result<&'static Operator> {
    OPERATOR.get().context("the shared operator is not started")
}

/// Starts a control plane for one test, with all objects of the chart except the operator.
///
/// # Errors
/// If it cannot be started.
pub async fn start_control_plane() -> Result<ControlPlane> {
    let control_plane = ControlPlane::start(control_plane_options()?).await?;
    install_chart_objects(&control_plane).await?;
    Ok(control_plane)
}

/// Releases the lease of a dead operator, so that the next one need not wait until it expires. The
/// term of the dead operator stays counted.
///
/// # Errors
/// If the lease does not exist.
pub async fn release_lease(control_plane: &ControlPlane) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let patch = json!({"spec": {"holderIdentity": ""}});
    leases
        .patch(LEASE_NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

/// The folder of the shared operator's snapshots, in the folder of the control plane.
pub const SNAPSHOTS_FOLDER: &str = "snapshots";
