//! An install reuses the objects that an uninstall has kept, with Helm 4 and with Helm 3. Helm 3
//! can only create the objects of a hook.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_api::{ClusterJobPolicy, TrainingQueue};
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::helm::Helm;
use trellis_e2e::operator::NAMESPACE;

use crate::install::{count_crds, install_block, run_commands};

/// Installs the chart without replicas. Helm rolls back if the installation fails.
fn install_without_replicas(helm: &Helm, flag: &str) -> Result<String> {
    let flags = ["--create-namespace", "--wait", "--timeout=60s", flag];
    helm.run_chart_command("install", NAMESPACE, &json!({"replicaCount": 0}), &flags)
}

pub(crate) async fn test_reinstall_by_helm(helm: Helm) -> Result<()> {
    reinstall_over_retained_objects(helm, "--rollback-on-failure").await
}

pub(crate) async fn test_reinstall_by_helm_3(_: Helm) -> Result<()> {
    reinstall_over_retained_objects(Helm::find_or_build_helm_3()?, "--atomic").await
}

async fn reinstall_over_retained_objects(helm: Helm, flag: &str) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = helm.with_control_plane(&control_plane);
    let output = install_without_replicas(&helm, flag)?;
    ensure!(output.contains("STATUS: deployed"), "{output}");
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let policies: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let queue = queues.get("default").await?;

    // An upgrade does not create deleted objects again.
    let starter = policies.get("starter").await?;
    policies.delete("starter", &DeleteParams::default()).await?;
    let values = json!({"replicaCount": 0, "operator": {"logFormat": "human"}});
    helm.run_chart_command("upgrade", NAMESPACE, &values, &["--wait"])?;
    ensure!(policies.get_opt("starter").await?.is_none());
    let deployments: Api<Deployment> = Api::namespaced(control_plane.client(), NAMESPACE);
    let args = deployments.get("trellis-operator").await?;
    let args = serde_json::to_string(&args.spec)?;
    ensure!(args.contains("--log=human"), "{args}");

    // A kept object with a user's change stays as it is.
    let uninstall = ["uninstall", "trellis", "--namespace", NAMESPACE];
    helm.run_ok(&uninstall)?;
    let kinds = count_crds(&control_plane).await?;
    ensure!(kinds == trellis_api::crds::all().len(), "{kinds} kinds");
    let patch = json!({"metadata": {"labels": {"of": "platform"}},
        "spec": {"weight": 7}});
    let patch = Patch::Merge(&patch);
    let people = PatchParams::apply("people");
    queues.patch("default", &people, &patch).await?;
    install_without_replicas(&helm, flag)?;
    let existing = queues.get("default").await?;
    ensure!(
        existing.metadata.uid == queue.metadata.uid,
        "the queue was created again"
    );
    ensure!(
        existing
            .labels()
            .get("of")
            .context("the change was reverted")?
            == "platform"
    );
    // The install creates a missing object.
    let created = policies.get("starter").await?;
    ensure!(created.metadata.uid != starter.metadata.uid);

    // This also holds for fields of the chart that a user has overwritten.
    let mut spec = serde_json::to_value(&created.spec)?;
    spec["cedar"] = json!("permit(principal, action, resource);");
    let patch = Patch::Merge(json!({"spec": spec}));
    policies.patch("starter", &people, &patch).await?;
    helm.run_ok(&uninstall)?;
    install_without_replicas(&helm, flag)?;
    let existing = policies.get("starter").await?;
    let text = serde_json::to_value(&existing.spec)?["cedar"].clone();
    ensure!(text == spec["cedar"], "the change was reverted: {text}");
    Ok(())
}

/// The reader must state the cluster's Kubernetes version to render with Helm 3, which otherwise
/// assumes the version that was current at its own release: here one before 1.36, for which the
/// chart has no MutatingAdmissionPolicy.
pub(crate) async fn test_render_by_helm_3(_: Helm) -> Result<()> {
    let helm = Helm::find_or_build_helm_3()?;
    let alone = helm.run_chart_command("template", NAMESPACE, &json!({}), &[])?;
    ensure!(
        !alone.contains("kind: MutatingAdmissionPolicy\n"),
        "this test is useless: Helm assumes a Kubernetes version with MutatingAdmissionPolicy"
    );
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    run_commands(
        &helm,
        &control_plane,
        &install_block("kubectl create namespace")?,
    )?;
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    queues.get("default").await?;
    run_commands(&helm, &control_plane, &install_block("SERVER=")?)
}
