//! docs/gitops.md: Argo CD delivers its repositories, and its quotes match their files.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::{self, Application, Repository};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::kubelet;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::wait::{wait_for, wait_until_deleted};

use crate::fixtures::{GitOpsFixture, SOON, docs_path};

/// The namespace in the repositories.
const TEAM_NAMESPACE: &str = "team-a";

pub(crate) async fn test_delivery(scene: &GitOpsFixture) -> Result<()> {
    // Nodes with the flavor of the documentation, for its jobs.
    let _nodes = NodeTemplate::new(5)
        .name("gitops-docs-{i}")
        .gpus(8)
        .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
        .create(&scene.control_plane)
        .await?;
    let repository = Repository::from_folder(&docs_path(""))?;
    let text = fs::read_to_string(docs_path("applications.yaml"))?;
    let mut applications: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    ensure!(
        applications.len() == 2,
        "{} Applications",
        applications.len()
    );
    let mut delivered = Vec::new();
    for application in &mut applications {
        localize_application(application, &repository);
        delivered.push(scene.argocd.create_application(application).await?);
    }
    let all = [
        "TrainingQueue/team-a",
        "QuotaPolicy/team-a",
        "RuntimeProfile/fabric",
    ];
    let wait_until_healthy = |app: &Application| {
        let app = app.clone();
        async move {
            let healthy = |s: &argocd::ApplicationState| {
                s.health == "Healthy" && s.sync == "Synced" && s.syncs == 1
            };
            app.wait_for_state("Healthy and Synced", SOON, healthy)
                .await
        }
    };
    let platform = wait_until_healthy(&delivered[0]).await?;
    for resource in all {
        ensure!(
            platform.resource_health(resource) == "Healthy",
            "{resource}: {platform:#?}"
        );
    }
    let jobs: Api<TrainingJob> = Api::namespaced(scene.control_plane.client(), TEAM_NAMESPACE);
    let is_running = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
    let full = wait_for(&jobs, "llm-7", SOON, is_running).await?;
    let image = full.spec.task_groups[0].image.as_str();
    ensure!(image == "registry.example/train:1.4", "{image}");
    wait_until_healthy(&delivered[1]).await?;

    // The objects on the cluster are in the state for which Flux waits.
    let mut objects = vec![serde_json::to_value(jobs.get("llm-7").await?)?];
    for (plural, name) in [
        ("trainingqueues", "team-a"),
        ("quotapolicies", "team-a"),
        ("clusterjobpolicies", "base"),
        ("clusterjobpolicies", "own-images"),
        ("runtimeprofiles", "fabric"),
        ("resourceflavors", "h100"),
        ("topologies", "network"),
    ] {
        let resource = format!("{plural}.trellis.dev");
        let get = ["get", &resource, name, "--output=json"];
        objects.push(serde_json::from_str(
            &scene.control_plane.kubectl_ok(&get).await?,
        )?);
    }
    for (object, judged) in objects.iter().zip(argocd::judge_kstatus(&objects)?) {
        ensure!(judged.status == "Current", "{object}: {judged:?}");
    }

    // The other folders of the team, each as its own Application. One of them has a hook, which
    // runs first.
    for (path, job) in [("team/overlays/try", "llm-try"), ("team/hook", "tokenize")] {
        let name = path.replace('/', "-");
        let application = argocd::application_manifest(&name, &repository, path, TEAM_NAMESPACE);
        delivered.push(scene.argocd.create_application(&application).await?);
        wait_for(&jobs, job, SOON, is_running).await?;
    }
    ensure!(
        jobs.get_opt("small").await?.is_none(),
        "the sync does not wait for the hook"
    );
    let pods: Api<Pod> = Api::namespaced(scene.control_plane.client(), TEAM_NAMESPACE);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {kubelet::EXIT: "0"}}}));
    pods.patch("tokenize-worker-0", &PatchParams::default(), &patch)
        .await?;
    wait_for(&jobs, "small", SOON, is_running).await?;
    for application in delivered.iter().rev() {
        application.delete(SOON).await?;
    }
    ensure!(
        jobs.get_opt("llm-7").await?.is_none(),
        "the job still exists"
    );
    let namespaces: Api<Namespace> = Api::all(scene.control_plane.client());
    namespaces
        .delete(TEAM_NAMESPACE, &DeleteParams::background())
        .await?;
    wait_until_deleted(&namespaces, TEAM_NAMESPACE, SOON).await
}

/// Changes the Application so that it delivers from this machine and deletes all its objects at the
/// end.
pub(crate) fn localize_application(application: &mut Value, repository: &Repository) {
    application["spec"]["source"]["repoURL"] = json!(repository.url());
    application["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
}

/// Each YAML block names a file of docs/gitops in its first line and equals this file.
pub(crate) fn test_quoted_yaml() -> Result<()> {
    let text = fs::read_to_string(docs_path("../gitops.md"))?;
    let blocks: Vec<&str> = text.split("```yaml\n").skip(1).collect();
    ensure!(blocks.len() >= 5, "{} blocks of YAML", blocks.len());
    for block in blocks {
        let block = block.split("```").next().unwrap_or_default();
        let (first, rest) = block.split_once('\n').context("a block of one line")?;
        let path = first
            .strip_prefix("# ")
            .with_context(|| format!("{first:?} names no file"))?;
        let file = fs::read_to_string(docs_path(path)).with_context(|| format!("read {path}"))?;
        ensure!(
            file == rest,
            "docs/gitops.md differs from docs/gitops/{path}"
        );
    }
    Ok(())
}
