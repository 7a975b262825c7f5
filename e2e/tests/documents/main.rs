//! The API server accepts all YAML in the documentation, and every example runs. The tests find the
//! files themselves, so a new file needs no change here.

mod blocks;
mod command_blocks;
mod page_checks;
mod quick_start;
mod resume_example;
mod yaml_acceptance;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::operator;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::volumes;
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

/// Longest time until an example runs.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of nodes, of 8 GPUs each, that the largest example needs.
const NODES: usize = 16;

async fn shared_control_plane() -> &'static ControlPlane {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    operator::shared_control_plane(program).await.unwrap()
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files below `folder`, at any depth, whose names end with one of `suffixes`, with their
/// text.
fn files_below(folder: &Path, suffixes: &[&str]) -> Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let entries = folder.read_dir();
    for entry in entries.with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path, suffixes)?);
        } else if suffixes
            .iter()
            .any(|end| path.to_string_lossy().ends_with(end))
        {
            found.insert(path.clone(), std::fs::read_to_string(&path)?);
        }
    }
    Ok(found)
}

fn example_files() -> BTreeMap<PathBuf, String> {
    let mut examples =
        files_below(&repository_root().join("examples"), &[".yaml", ".yml"]).unwrap();
    // Scenarios are no objects of a cluster: operator/cli/tests/simulate runs them.
    examples.retain(|path, _| !path.iter().any(|part| part == "scenarios"));
    assert!(!examples.is_empty(), "no examples were found");
    examples
}

/// Returns README, CONTRIBUTING and the pages of docs.
fn document_files() -> BTreeMap<PathBuf, String> {
    let mut documents = files_below(&repository_root().join("docs"), &[".md"]).unwrap();
    for page in ["README.md", "CONTRIBUTING.md"] {
        let path = repository_root().join(page);
        let text = std::fs::read_to_string(&path).unwrap();
        documents.insert(path, text);
    }
    documents
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_runs() {
    let control_plane = shared_control_plane().await;
    // The usual size of a node with 8 GPUs.
    let _nodes = NodeTemplate::new(NODES)
        .name("example-{i}")
        .gpus(8)
        .capacity("cpu", "192")
        .capacity("memory", "2Ti")
        // The flavor of examples/queues/autoscaled.yaml. The job needs no new nodes here:
        // `cargo demo --autoscale` runs it with Karpenter.
        .label("karpenter.sh/nodepool", "h100")
        .gpu_taint()
        .blocks()
        .create(control_plane)
        .await
        .unwrap();
    // One node is for examples without GPUs.
    let _plain = NodeTemplate::new(1)
        .name("example-cpu-{i}")
        .gpus(0)
        .create(control_plane)
        .await
        .unwrap();
    // The existing claims that the examples need.
    let claims = volumes::bound_claims_yaml("default", &["datasets", "checkpoints"]);
    control_plane.apply_yaml(&claims).await.unwrap();
    // External Secrets Operator and Karpenter run in other tests, with these examples.
    let others = ["secrets", "nodepool.yaml"];
    let of_here = |path: &PathBuf| {
        !path
            .iter()
            .any(|part| others.iter().any(|other| part == *other))
    };
    for (path, yaml) in example_files()
        .into_iter()
        .filter(|(path, _)| of_here(path))
    {
        let runs = run_and_remove(control_plane, &yaml).await;
        runs.with_context(|| path.display().to_string()).unwrap();
    }
}

/// The commands of CONTRIBUTING that install Trellis on an empty control plane.
fn contributing_install_commands() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(repository_root().join("CONTRIBUTING.md")).unwrap();
    let mut blocks = page.split("```sh\n").skip(1);
    let block = blocks.find(|block| block.starts_with("kubectl create namespace"));
    let block = block.unwrap().split("```").next().unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    block.lines().map(words).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contributing_commands_install_trellis() {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default())
        .await
        .unwrap();
    let nodes = NodeTemplate::new(4).gpus(8).blocks();
    let _nodes = nodes.create(&control_plane).await.unwrap();
    let mut commands = contributing_install_commands();
    let operator = commands.pop().unwrap();
    assert_eq!(operator.join(" "), "cargo run -p trellis-operator");
    for command in commands {
        let (kubectl, arguments) = command.split_first().unwrap();
        assert_eq!(kubectl, "kubectl");
        // Tests run in another folder than readers do.
        let absolute_path = |word: &String| match word.starts_with("charts/") {
            true => repository_root().join(word).display().to_string(),
            false => word.clone(),
        };
        let arguments: Vec<String> = arguments.iter().map(absolute_path).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        control_plane.kubectl_ok(&arguments).await.unwrap();
    }
    let kubeconfig = control_plane.kubeconfig();
    let _operator = control_plane
        .spawn(
            "operator",
            Path::new("env"),
            &[
                format!("KUBECONFIG={}", kubeconfig.display()),
                env!("CARGO_BIN_EXE_trellis-under-test").to_owned(),
                "operator".to_owned(),
            ],
        )
        .unwrap();
    operator::wait_until_jobs_accepted(&control_plane)
        .await
        .unwrap();
    let example = repository_root().join("examples/two-racks.yaml");
    let example = std::fs::read_to_string(example).unwrap();
    run_and_remove(&control_plane, &example).await.unwrap();
}

/// Applies the YAML, waits until its jobs run or have ended, and deletes its objects.
async fn run_and_remove(control_plane: &ControlPlane, yaml: &str) -> Result<()> {
    let stored = control_plane.apply_yaml(yaml).await?;
    let jobs: Vec<_> = stored
        .into_iter()
        .filter(|o| o.types.as_ref().is_some_and(|t| t.kind == "TrainingJob"))
        .collect();
    ensure!(!jobs.is_empty(), "no TrainingJob");
    for job in jobs {
        let namespace = job.namespace().unwrap_or_default();
        let api: Api<TrainingJob> = Api::namespaced(control_plane.client(), &namespace);
        let name = job.name_any();
        let up =
            |job: &TrainingJob| matches!(phase(job), Some(JobPhase::Running | JobPhase::Complete));
        let now = wait_for(&api, &name, RUN_TIMEOUT, up).await?;
        let status = now.status.unwrap_or_default();
        ensure!(status.attempt == Some(1), "{name}: {status:?}");
        api.delete(&name, &DeleteParams::default()).await?;
        wait_until_deleted(&api, &name, RUN_TIMEOUT).await?;
        eventually(RUN_TIMEOUT, || async {
            let pods: Api<Pod> = Api::namespaced(control_plane.client(), &namespace);
            let remaining = pods.list(&ListParams::default()).await?.items.len();
            ensure!(remaining == 0, "{remaining} pods still exist");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
