//! Real training on real nodes: the demo kills a rank, and the result stays the same.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::real_nodes::{self, RealNode, RealNodes, kill_rank};
use trellis_e2e::volumes;
use trellis_e2e::wait::eventually;

use crate::screen::{print_line, print_step, run_kubectl};
use crate::{install_and_start_operator, steps, wait_for_user};

const NODES: usize = 2;
const GPUS: u32 = 4;
const RANKS: usize = 4;
/// The rank that the demo kills.
const KILLED_RANK: u32 = 2;

/// Longest time until PyTorch has started in all ranks.
const TRAINING_TIMEOUT: Duration = Duration::from_secs(120);

const JOB: &str = include_str!("train.yaml");
const TRAINING_PROGRAM: &str = include_str!("../../../tests/real_nodes/train.py");

/// Runs the demo on real nodes.
///
/// # Errors
///
/// When the machine cannot run real nodes, or a step does not have its announced result.
pub(crate) async fn run(once: bool) -> Result<()> {
    if let Some(reason) = tokio::task::spawn_blocking(real_nodes::unavailable_reason).await? {
        bail!("{reason}");
    }
    print_step("a control plane (etcd, kube-apiserver, kube-controller-manager), and real nodes");
    let options = real_nodes::with_real_nodes(operator::control_plane_options()?);
    let control_plane = ControlPlane::start(options).await?;
    let nodes: Vec<RealNode> = (0..NODES)
        .map(|index| RealNode::new(&format!("real-{index}"), GPUS))
        .collect();
    let nodes = RealNodes::start(&control_plane, &nodes).await?;
    ensure!(
        nodes.has_pytorch(),
        "this machine has no package python3-torch"
    );
    print_line(&format!(
        "{NODES} nodes (kubelet, containerd, runc) with {GPUS} simulated GPUs each"
    ));
    run_kubectl(&control_plane, &["get", "nodes"]).await?;

    print_step(
        "CRDs, roles, the default queue and the starter policies from charts/trellis, and the operator",
    );
    let mut operator = install_and_start_operator(&control_plane, &[]).await?;
    run_training(&control_plane)
        .await
        .with_context(|| format!("operator: {}", operator.log_tail()))?;
    wait_for_user(&control_plane, &mut operator, once, &[]).await
}

async fn run_training(control_plane: &ControlPlane) -> Result<()> {
    print_step("train: torchrun in 4 pods, PyTorch on the CPU");
    let checkpoints = control_plane.folder().join("checkpoints");
    prepare_volumes(control_plane, &checkpoints).await?;
    print_line("$ kubectl apply -f e2e/src/bin/demo/train.yaml");
    control_plane.apply_yaml(JOB).await?;
    steps::wait_until_running(control_plane, "train", RANKS).await?;

    print_step("rank 2 is killed, after the first checkpoint");
    eventually(TRAINING_TIMEOUT, || async {
        let first = checkpoints.join("train/attempt-000001/state.pt");
        ensure!(first.is_file(), "no checkpoint exists");
        Ok(())
    })
    .await?;
    kill_rank("train", KILLED_RANK, "/app/train.py")?;
    steps::wait_for_status(control_plane, "train", |s| s.restarts == Some(1)).await?;
    run_kubectl(control_plane, &["get", "tj"]).await?;

    print_step("all ranks go on where they were, and end");
    steps::wait_for_status(control_plane, "train", |s| {
        s.phase == Some(JobPhase::Complete)
    })
    .await?;
    run_kubectl(control_plane, &["logs", "train-worker-0"]).await?;
    run_kubectl(control_plane, &["get", "tj"]).await
}

/// The training program, and the folder of its checkpoints.
async fn prepare_volumes(control_plane: &ControlPlane, checkpoints: &Path) -> Result<()> {
    std::fs::create_dir_all(checkpoints)?;
    let program = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "app"}, "data": {"train.py": TRAINING_PROGRAM},
    });
    for yaml in [
        volumes::folder_volume_yaml("default", "checkpoints", checkpoints),
        volumes::claim_yaml("default", "checkpoints"),
        program.to_string(),
    ] {
        control_plane.apply_yaml(&yaml).await?;
    }
    Ok(())
}
