//! Argo CD delivers Trellis from its Helm chart. Fields that the operator writes into the chart's
//! objects are no difference.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use serde_json::{Value, json};
use tokio::time::sleep;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::visibility::API_SERVICE;
use trellis_e2e::argocd::{Application, ApplicationState, ArgoCd, Repository};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::folder;
use trellis_e2e::helm::{self, Helm};
use trellis_e2e::operator::{self, NAMESPACE};
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::eventually;

use crate::documents::localize_application;
use crate::fixtures::{SOON, docs_path};

/// Time for which the test watches the Application.
const WATCH_TIME: Duration = Duration::from_secs(20);
/// Time between two requested comparisons.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) async fn test_client_side_sync() -> Result<()> {
    check_in_sync(|_| ()).await
}

/// Argo CD uses server-side apply and server-side diff.
pub(crate) async fn test_server_side_sync() -> Result<()> {
    let by_server = |application: &mut Value| {
        application["spec"]["syncPolicy"]["syncOptions"] =
            json!(["CreateNamespace=true", "ServerSideApply=true"]);
        application["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"});
    };
    check_in_sync(by_server).await
}

async fn check_in_sync(change: impl FnOnce(&mut Value)) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = tokio::task::spawn_blocking(Helm::find_or_build).await??;
    let argocd = ArgoCd::start(&control_plane, &[], &[helm.folder()]).await?;
    let source = tempfile::tempdir()?;
    folder::copy_folder(&helm::chart_folder(), &source.path().join("charts/trellis"))?;
    let repository = Repository::from_folder(source.path())?;
    let text = fs::read_to_string(docs_path("trellis.yaml"))?;
    let mut application: Value = serde_saphyr::from_str(&text)?;
    localize_application(&mut application, &repository);
    change(&mut application);
    let application = argocd.create_application(&application).await?;
    let synced =
        |state: &ApplicationState| state.sync == "Synced" && state.operation.0 == "Succeeded";
    application.wait_for_state("synced", SOON, synced).await?;

    // Objects that users own from the start: the default queue, and the policies of docs/gitops
    // that permit the job.
    let queue = helm::chart_folder().join("files/queue.yaml");
    for file in [queue, docs_path("platform/base.yaml")] {
        control_plane.apply_yaml(&fs::read_to_string(file)?).await?;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let mut operator = operator::start_as_deployed(&control_plane, program, operator::POD).await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    let site = TestSite::new(&control_plane, "delivered", NodeTemplate::new(1).gpus(8)).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    eventually(SOON, || wait_for_operator_writes(&control_plane)).await?;

    check_stays_in_sync(&application).await?;
    operator.assert_runs();

    application.delete(SOON).await?;
    let deployments: Api<Deployment> = Api::namespaced(control_plane.client(), NAMESPACE);
    ensure!(deployments.get_opt("trellis-operator").await?.is_none());
    let job = site.api::<TrainingJob>().get("j").await?;
    ensure!(job.metadata.deletion_timestamp.is_none(), "{job:?}");
    ensure!(site.list_pods("j").await.len() == 1);
    Ok(())
}

/// Waits until the operator has written all its fields into objects of the chart.
async fn wait_for_operator_writes(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["trellis-webhook", "trellis-endpoint"] {
        let data = secrets.get(name).await?.data.unwrap_or_default();
        ensure!(data.contains_key("tls.crt"), "{name}");
    }
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let webhook = webhooks.get("trellis-webhook").await?;
    let mut webhooks = webhook.webhooks.into_iter().flatten();
    ensure!(webhooks.all(|w| w.client_config.ca_bundle.is_some()));
    let groups: Api<APIService> = Api::all(client);
    let spec = groups.get(API_SERVICE).await?.spec;
    ensure!(spec.is_some_and(|spec| spec.ca_bundle.is_some()));
    Ok(())
}

/// Compares repeatedly, and checks that no object differs and that no new sync starts.
async fn check_stays_in_sync(application: &Application) -> Result<()> {
    let before = application.read_state().await?;
    let is_over = AtomicBool::new(false);
    let watched = application.record_states(|_| is_over.load(Ordering::Relaxed));
    let compared = async {
        let rounds = WATCH_TIME.as_secs() / REFRESH_INTERVAL.as_secs();
        for _ in 0..rounds {
            application.refresh().await?;
            sleep(REFRESH_INTERVAL).await;
        }
        is_over.store(true, Ordering::Relaxed);
        application.refresh().await
    };
    let (history, ()) = tokio::try_join!(watched, compared)?;
    for state in &history {
        let differ = state.resources.iter();
        let differ: Vec<_> = differ
            .filter(|(_, resource)| resource.0 != "Synced")
            .collect();
        ensure!(
            state.sync == "Synced" && differ.is_empty(),
            "{differ:?}: {state:#?}"
        );
        ensure!(state.syncs == before.syncs, "synced again: {state:#?}");
    }
    let mut compared: Vec<&str> = history.iter().map(|s| s.reconciled.as_str()).collect();
    compared.dedup();
    ensure!(compared.len() >= 5, "compared {} times", compared.len());
    Ok(())
}
