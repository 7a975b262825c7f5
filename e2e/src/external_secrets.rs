//! External Secrets Operator on a test control plane: its own CRDs, a simulation of its controller,
//! and the controller itself if it is installed.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _};
use serde_json::json;
use trellis_api::external_secret::ExternalSecret;

use crate::binaries::download_module;
use crate::control_plane::ControlPlane;
use crate::process::Process;
use crate::site::jobs::TestJobs;

/// The Go module with the CRDs and the controller. `control-plane/external-secrets` names its
/// version.
const MODULE: &str = "github.com/external-secrets/external-secrets";
/// The program of the controller on the `PATH`. A build takes ten minutes, in
/// `e2e/control-plane/external-secrets` by `go build -o FOLDER
/// github.com/external-secrets/external-secrets`.
const PROGRAM: &str = "external-secrets";

/// The CRDs of ExternalSecrets and their stores, from the Go module.
///
/// # Errors
/// When Go is missing, or the module cannot be downloaded.
pub fn crds() -> Result<Vec<String>> {
    let bases = download_module("external-secrets", MODULE)?.join("config/crds/bases");
    ["externalsecrets", "secretstores", "clustersecretstores"]
        .map(|plural| {
            let path = bases.join(format!("external-secrets.io_{plural}.yaml"));
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        })
        .into_iter()
        .collect()
}

/// Starts the controller if its program exists, with all rights as in its chart.
///
/// # Errors
/// When the controller cannot be started.
pub fn start(control_plane: &ControlPlane) -> Result<Option<Process>> {
    let Some(program) = find_program() else {
        return Ok(None);
    };
    let kubeconfig = control_plane.kubeconfig();
    let mut arguments = vec![
        format!("KUBECONFIG={}", kubeconfig.display()),
        program.display().to_string(),
    ];
    arguments.extend(
        [
            "--metrics-addr=0",
            "--live-addr=127.0.0.1:0",
            "--enable-cluster-external-secret-reconciler=false",
            "--enable-cluster-push-secret-reconciler=false",
            "--enable-push-secret-reconciler=false",
            "--enable-generator-state=false",
            "--zap-time-encoding=iso8601",
        ]
        .map(str::to_owned),
    );
    let process = control_plane.spawn(PROGRAM, Path::new("env"), &arguments)?;
    Ok(Some(process))
}

fn find_program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path);
    let found = folders.find_map(|folder| Some(folder.join(PROGRAM)).filter(|p| p.is_file()));
    if found.is_none() {
        eprintln!("{PROGRAM} is not on the PATH: what its controller does is played by the tests");
    }
    found
}

/// Simulates the controller after it has read all values: creates the Secret, and sets the
/// ExternalSecret to ready in its current version.
///
/// # Errors
/// When the ExternalSecret does not exist, or the API server refuses a write.
pub async fn create_secret(jobs: &TestJobs, name: &str) -> Result<()> {
    let objects: Api<ExternalSecret> = jobs.api();
    let object = objects.get(name).await?;
    let spec = &object.spec;
    let data = spec.data.iter();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(spec.target.name.clone()),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: Some(
            data.map(|key| (key.secret_key.clone(), key.remote_ref.key.clone()))
                .collect(),
        ),
        ..Secret::default()
    };
    let secrets: Api<Secret> = jobs.api();
    let created = secrets.create(&PostParams::default(), &secret).await;
    let exists = matches!(&created, Err(kube::Error::Api(status)) if status.code == 409);
    ensure!(created.is_ok() || exists, "{created:?}");
    let version = format!("{}-0", object.metadata.generation.unwrap_or_default());
    write_status(
        jobs,
        name,
        "True",
        "SecretSynced",
        "secret synced",
        Some(&version),
    )
    .await
}

/// Simulates the controller after it has failed to read a value from a store.
///
/// # Errors
/// When the ExternalSecret does not exist.
pub async fn report_failure(jobs: &TestJobs, name: &str, reason: &str) -> Result<()> {
    write_status(jobs, name, "False", "SecretSyncedError", reason, None).await
}

async fn write_status(
    jobs: &TestJobs,
    name: &str,
    ready: &str,
    reason: &str,
    message: &str,
    version: Option<&str>,
) -> Result<()> {
    let condition = json!({"type": "Ready", "status": ready, "reason": reason, "message": message});
    let mut status = json!({"conditions": [condition]});
    if let Some(version) = version {
        status["syncedResourceVersion"] = json!(version);
    }
    let objects: Api<ExternalSecret> = jobs.api();
    let patch = Patch::Merge(json!({"status": status}));
    objects
        .patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Creates a store with these values by path, with the provider for tests.
///
/// # Panics
/// When the API server refuses the store.
pub async fn apply_fake_store(control_plane: &ControlPlane, name: &str, values: &[(&str, &str)]) {
    let data: Vec<_> = values
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    let store = json!({
        "apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
        "metadata": {"name": name}, "spec": {"provider": {"fake": {"data": data}}},
    });
    let stored: Vec<DynamicObject> = control_plane.apply_yaml(&store.to_string()).await.unwrap();
    assert_eq!(stored.len(), 1);
}
