//! Install, upgrade and uninstall, with an operator that has the settings and the ServiceAccount of
//! the chart.

pub(super) mod external_crds;
pub(super) mod image;
pub(super) mod reinstall;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingWebhook, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::visibility::API_SERVICE;
use trellis_api::{ClusterJobPolicy, TrainingJob, TrainingQueue};
use trellis_e2e::binaries::{Executable, KubernetesVersion};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::helm::{Helm, chart_folder};
use trellis_e2e::operator::{self, NAMESPACE, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

/// Longest time until deleted kinds and their objects are gone. The API server deletes the objects
/// of a kind first. Its requests fail while the storage of the kind restarts, and it retries with a
/// growing back-off.
const DELETION_TIMEOUT: Duration = Duration::from_secs(180);

const CREATE_NAMESPACE: &[&str] = &["--create-namespace"];

/// Starts the operator of the chart in a pod with this name.
pub(crate) async fn start_operator(control_plane: &ControlPlane, pod: &str) -> Result<Operator> {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    operator::start_as_deployed(control_plane, program, pod).await
}

pub(crate) async fn count_crds(control_plane: &ControlPlane) -> Result<usize> {
    let api: Api<CustomResourceDefinition> = Api::all(control_plane.client());
    let all = api.list(&ListParams::default()).await?;
    let trellis_crds = all.items.iter().filter(|c| c.spec.group == "trellis.dev");
    Ok(trellis_crds.count())
}

pub(crate) async fn test_lifecycle(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = helm.with_control_plane(&control_plane);
    let output = helm.run_chart_command("install", NAMESPACE, &json!({}), CREATE_NAMESPACE)?;
    ensure!(output.contains("STATUS: deployed"), "{output}");
    let version = KubernetesVersion::chosen()?;
    let note = "The operator's webhook records who requests a job";
    ensure!(
        output.contains(note) != version.has_mutating_policies(),
        "{output}"
    );
    let mut running = start_operator(&control_plane, "first").await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    let site = TestSite::new(&control_plane, "chart", NodeTemplate::new(3).gpus(8)).await;
    site.submit("before", 2, 4).await;
    site.wait_for_phase("before", JobPhase::Running).await;

    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let policies: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let starter = policies.get("starter").await?;
    let uids = |queue: &TrainingQueue| queue.metadata.uid.clone();
    let queue = uids(&queues.get("default").await?);

    // The operator writes CA bundles into the chart's objects. An upgrade must keep them.
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.client());
    let trusted = async || {
        let webhook = webhooks.get("trellis-webhook").await?;
        let ca_bundle = |w: ValidatingWebhook| w.client_config.ca_bundle;
        let bundles = webhook.webhooks.into_iter().flatten().map(ca_bundle);
        let bundles: Option<Vec<_>> = bundles.collect();
        bundles.context("a webhook has no CA bundle")
    };
    let bundles_before = eventually(SOON, &trusted).await?;
    let groups: Api<APIService> = Api::all(control_plane.client());
    let of_group = async || {
        let group = groups.get(API_SERVICE).await?;
        let bundle = group.spec.and_then(|spec| spec.ca_bundle);
        bundle.context("the APIService has no CA bundle")
    };
    let told_of_group = eventually(SOON, &of_group).await?;
    eventually(SOON, async || {
        let (is_ready, text) = running.read_readiness().await?;
        ensure!(is_ready, "{text}");
        for part in ["certificate", "caches"] {
            let line = format!("[+]webhook-{part} ok\n");
            ensure!(text.contains(&line), "{text}");
        }
        Ok(())
    })
    .await?;
    let mut values = json!({"replicaCount": 3,
        "operator": {"logFormat": "human", "lookForSecretsIn": [site.name()]}});
    let output = helm.run_chart_command("upgrade", NAMESPACE, &values, &[])?;
    ensure!(output.contains("REVISION: 2"), "{output}");
    ensure!(
        trusted().await? == bundles_before,
        "the upgrade has changed the CA bundle"
    );
    ensure!(
        of_group().await? == told_of_group,
        "the upgrade has changed the CA bundle"
    );
    values["webhook"] = json!({"enabled": false});
    helm.run_chart_command("upgrade", NAMESPACE, &values, &[])?;
    ensure!(webhooks.get_opt("trellis-webhook").await?.is_none());
    let deployments: Api<Deployment> = Api::namespaced(control_plane.client(), NAMESPACE);
    let deployment = deployments.get("trellis-operator").await?;
    let replicas = deployment.spec.replicas;
    ensure!(replicas == Some(3), "{replicas:?}");
    // An upgrade does not touch the default queue and the starter policies.
    ensure!(uids(&queues.get("default").await?) == queue);
    ensure!(policies.get("starter").await?.metadata.uid == starter.metadata.uid);

    // The next operator takes over the state of the previous one.
    running.kill()?;
    drop(running);
    operator::release_lease(&control_plane).await?;
    let mut running = start_operator(&control_plane, "second").await?;
    site.submit("after", 2, 4).await;
    site.wait_for_phase("after", JobPhase::Running).await;
    site.wait_for_phase("before", JobPhase::Running).await;
    running.assert_runs();
    drop(running);
    operator::release_lease(&control_plane).await?;

    helm.run_ok(&["uninstall", "trellis", "--namespace", NAMESPACE])?;
    // Otherwise no namespace could be deleted any more.
    ensure!(groups.get_opt(API_SERVICE).await?.is_none());
    ensure!(deployments.get_opt("trellis-operator").await?.is_none());
    let kinds = count_crds(&control_plane).await?;
    ensure!(kinds == trellis_api::crds::all().len(), "{kinds} kinds");
    for name in ["before", "after"] {
        let job = site.api::<TrainingJob>().get(name).await?;
        ensure!(job.metadata.deletion_timestamp.is_none(), "{name}");
        ensure!(site.list_pods(name).await.len() == 2, "{name}");
    }

    // After a new install, the jobs keep running.
    helm.run_chart_command("install", NAMESPACE, &json!({}), &[])?;
    ensure!(uids(&queues.get("default").await?) == queue);
    let _running = start_operator(&control_plane, "third").await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    site.submit("again", 2, 2).await;
    site.wait_for_phase("again", JobPhase::Running).await;
    site.wait_for_phase("before", JobPhase::Running).await;
    // The admission policy of the new install compares with the term of the new leader.
    operator::wait_until_refused(&control_plane, "second", site.name()).await
}

/// A failed install is rolled back, as docs/endpoint.md describes, because an API group without an
/// operator blocks the deletion of namespaces. This control plane has no kubelets, so no operator
/// becomes ready.
pub(crate) async fn test_failed_install(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = helm.with_control_plane(&control_plane);
    let flags = [
        "--create-namespace",
        "--rollback-on-failure",
        "--timeout=20s",
    ];
    let installed = helm.run_chart_command("install", NAMESPACE, &json!({}), &flags);
    ensure!(installed.is_err(), "{installed:?}");
    let groups: Api<APIService> = Api::all(control_plane.client());
    ensure!(groups.get_opt(API_SERVICE).await?.is_none());
    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let name = "goes";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    control_plane.apply_yaml(&namespace.to_string()).await?;
    namespaces.delete(name, &DeleteParams::default()).await?;
    wait_until_deleted(&namespaces, name, DELETION_TIMEOUT).await
}

pub(crate) async fn test_uninstall_with_crds(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = helm.with_control_plane(&control_plane);
    let values = json!({"crds": {"keep": false}, "replicaCount": 0});
    // The namespace differs from the namespace in the plain files.
    helm.run_chart_command("install", "elsewhere", &values, CREATE_NAMESPACE)?;
    ensure!(count_crds(&control_plane).await? > 0);
    helm.run_ok(&["uninstall", "trellis", "--namespace", "elsewhere"])?;
    let api: Api<CustomResourceDefinition> = Api::all(control_plane.client());
    for crd in trellis_api::crds::all() {
        let name = crd.metadata.name.unwrap_or_default();
        wait_until_deleted(&api, &name, DELETION_TIMEOUT).await?;
    }
    Ok(())
}

/// Returns the block of docs/install.md that begins with these words.
pub(crate) fn install_block(prefix: &str) -> Result<String> {
    let docs = std::fs::read_to_string(chart_folder().join("../../docs/install.md"))?;
    let mut blocks = docs.split("```sh\n").skip(1);
    let block = blocks.find(|block| block.starts_with(prefix));
    let block = block.and_then(|block| block.split("```").next());
    Ok(block.with_context(|| format!("no {prefix:?}"))?.to_owned())
}

/// Runs these commands, as a reader would.
pub(crate) fn run_commands(
    helm: &Helm,
    control_plane: &ControlPlane,
    commands: &str,
) -> Result<()> {
    let kubectl = control_plane.binaries().path(Executable::Kubectl).parent();
    let mut path = vec![
        helm.folder(),
        kubectl.context("kubectl is not on the PATH")?,
    ];
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    path.extend(folders.iter().map(PathBuf::as_path));
    let output = Command::new("sh")
        .args(["-euc", commands])
        .current_dir(chart_folder().join("../.."))
        .env("KUBECONFIG", control_plane.kubeconfig())
        .env("HOME", control_plane.folder())
        .env("PATH", std::env::join_paths(path)?)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{commands}: {stderr}");
    Ok(())
}

/// Installs with these commands, and submits a job.
async fn install_by_commands(helm: &Helm, commands: &str) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    run_commands(helm, &control_plane, commands)?;
    let _running = start_operator(&control_plane, operator::POD).await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    queues.get("default").await?;
    Ok(())
}

pub(crate) async fn test_install_by_helm(helm: Helm) -> Result<()> {
    let commands = install_block("helm install")?;
    let readme = std::fs::read_to_string(chart_folder().join("../../README.md"))?;
    ensure!(readme.contains(&commands), "README has not {commands:?}");
    install_by_commands(&helm, &commands).await
}

pub(crate) async fn test_install_by_kubectl(helm: Helm) -> Result<()> {
    install_by_commands(&helm, &install_block("kubectl create namespace")?).await
}
