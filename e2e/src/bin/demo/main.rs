//! Trellis in two minutes: a control plane with simulated GPU nodes, the operator on it, and the
//! examples, step by step. The demo fails if a step does not have its announced result.

mod autoscale;
mod page;
mod real_nodes;
mod screen;
mod steps;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use trellis_e2e::cluster::{NodeSet, NodeTemplate};
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions, free_port};
use trellis_e2e::kubelet::failures;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::visibility;
use trellis_e2e::volumes;

/// Number of GPU nodes: enough for each example, but not for all at the same time.
const GPU_NODES: usize = 12;
/// GPUs per node.
const GPUS_PER_NODE: u32 = 8;
/// Number of nodes without GPUs.
const CPU_NODES: usize = 2;

/// Interval between two checks that the operator runs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Existing claims that `examples/finetune-with-data.yaml` needs.
const CLAIMS: [&str; 2] = ["datasets", "checkpoints"];

/// The log of each simulated pod.
const POD_LOG: [&str; 6] = [
    "simulated: each pod of the demo has this log, and none trains",
    "step 100 loss 10.82",
    "step 200 loss 8.41",
    "step 300 loss 6.97",
    "step 400 loss 6.25",
    "checkpoint: step 400 written",
];

/// Trellis on a control plane with simulated GPU nodes, until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Arguments {
    /// End after the last step. Exit status 0: every step had its announced result.
    #[arg(long)]
    once: bool,
    /// Use real nodes with kubelet, containerd and PyTorch on the CPU, instead of simulated nodes.
    /// Requires root.
    #[arg(long)]
    real_nodes: bool,
    /// Start with an empty pool. A real Karpenter adds 16 simulated nodes for a job, and removes
    /// them after the job. Takes about two minutes.
    #[arg(long, conflicts_with = "real_nodes")]
    autoscale: bool,
}

fn main() -> ExitCode {
    // The demo program is also the operator and the command line, because `cargo run` builds no
    // other binary.
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    let first = arguments.next().unwrap_or_default();
    let is_trellis = Path::new(&name).file_name() == Some("trellis".as_ref());
    if is_trellis || !(first.is_empty() || first.starts_with('-')) {
        return trellis_e2e::programs::run();
    }
    match demo(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // In both cases, dropping these values ends the control plane.
        tokio::select! {
            result = run(arguments) => result,
            signal = tokio::signal::ctrl_c() => {
                signal?;
                if arguments.once {
                    anyhow::bail!("interrupted before the last step");
                }
                screen::print_line("\nended");
                Ok(())
            }
        }
    })
}

async fn run(arguments: &Arguments) -> Result<()> {
    if arguments.real_nodes {
        return real_nodes::run(arguments.once).await;
    }
    if arguments.autoscale {
        return autoscale::run(arguments.once).await;
    }
    screen::print_step("a control plane (etcd, kube-apiserver, kube-controller-manager, kwok)");
    let control_plane = ControlPlane::start(simulation_options()?).await?;
    let (gpu_nodes, _cpu_nodes) = create_nodes(&control_plane).await?;
    screen::print_line(&format!(
        "{GPU_NODES} simulated nodes of {GPUS_PER_NODE} GPUs, labelled by block and rack, {CPU_NODES} nodes without"
    ));

    screen::print_step(
        "CRDs, roles, the default queue and the starter policies from charts/trellis, and the operator",
    );
    let claims = volumes::bound_claims_yaml("default", &CLAIMS);
    control_plane.apply_yaml(&claims).await?;
    let mut operator = install_and_start_operator(&control_plane, &[]).await?;
    failures::install(&control_plane).await?;
    let page = page::start(&control_plane).await?;
    screen::print_line(&format!(
        "watch it on the web page, which this link opens once: {}",
        page.link
    ));

    steps::run_all(&control_plane)
        .await
        .with_context(|| format!("operator: {}", operator.log_tail()))?;

    let hints = [
        "the web page again: trellis dashboard".to_owned(),
        failures::usage(),
        "logs: `trellis logs JOB` shows the same simulated lines for each pod; `cargo demo --real-nodes` runs real pods"
            .to_owned(),
    ];
    tokio::select! {
        result = wait_for_user(&control_plane, &mut operator, arguments.once, &hints) => result,
        () = failures::fail_requested_nodes(&control_plane, &gpu_nodes, screen::print_line) => Ok(()),
    }
}

/// Returns the options of a control plane whose pods are simulated and have [`POD_LOG`].
pub(crate) fn simulation_options() -> Result<ControlPlaneOptions> {
    Ok(ControlPlaneOptions {
        pod_log: POD_LOG.map(str::to_owned).to_vec(),
        ..operator::control_plane_options()?
    })
}

/// Installs Trellis and starts the operator, with its API group for queues and nodes. `arguments`
/// are further arguments of the operator.
pub(crate) async fn install_and_start_operator(
    control_plane: &ControlPlane,
    arguments: &[&str],
) -> Result<Operator> {
    operator::install_chart_objects(control_plane).await?;
    let port = free_port()?;
    visibility::install(control_plane, port).await?;
    let snapshots = snapshots_folder(control_plane);
    std::fs::create_dir_all(&snapshots)?;
    let launch = visibility::launch_options("operator", port)
        .lease_seconds(60)
        .argument(&format!("--snapshots={}", snapshots.display()));
    let launch = arguments
        .iter()
        .fold(launch, |launch, argument| launch.argument(argument));
    let operator = visibility::start_as(control_plane, &program()?, &launch).await?;
    let availability = visibility::wait_for_availability(control_plane, true).await;
    availability.with_context(|| format!("operator: {}", operator.log_tail()))?;
    Ok(operator)
}

/// Returns the path of the demo program, which is also `trellis`.
pub(crate) fn program() -> Result<PathBuf> {
    std::env::current_exe().context("find the demo's own program")
}

/// Folder of the operator's snapshots.
fn snapshots_folder(control_plane: &ControlPlane) -> PathBuf {
    control_plane.folder().join(operator::SNAPSHOTS_FOLDER)
}

/// Keeps the cluster running for the user until Ctrl-C. Reports the end of the operator.
pub(crate) async fn wait_for_user(
    control_plane: &ControlPlane,
    operator: &mut Operator,
    once: bool,
    hints: &[String],
) -> Result<()> {
    if once {
        screen::print_line("\nall as it should be");
        return Ok(());
    }
    screen::print_step("yours, until Ctrl-C");
    screen::print_line(&format!(
        "export KUBECONFIG={}",
        control_plane.kubeconfig().display()
    ));
    screen::print_line(&control_plane.shell_path_line(&[("trellis", &program()?)])?);
    let logs = control_plane.logs_folder();
    screen::print_line(&format!("logs of the programs: {}", logs.display()));
    screen::print_line(&format!(
        "a snapshot: kill -USR1 {}; sleep 2; trellis replay {}/*.json",
        operator.process_id(),
        snapshots_folder(control_plane).display()
    ));
    for hint in hints {
        screen::print_line(hint);
    }
    loop {
        if let Some(status) = operator.try_wait()? {
            screen::print_line(&format!(
                "\nthe operator has ended ({status}): what runs goes on, and nothing new starts. Its log: {}. Start the demo again for another",
                logs.display()
            ));
            return std::future::pending().await;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The nodes exist until the control plane ends or these values are dropped.
async fn create_nodes(control_plane: &ControlPlane) -> Result<(NodeSet, NodeSet)> {
    let gpu = NodeTemplate::new(GPU_NODES)
        .gpus(GPUS_PER_NODE)
        .capacity("cpu", "128")
        .capacity("memory", "2Ti")
        .blocks()
        .gpu_taint()
        .create(control_plane)
        .await?;
    let cpu = NodeTemplate::new(CPU_NODES)
        .name("cpu-{i}")
        .gpus(0)
        .capacity("cpu", "16")
        .capacity("memory", "64Gi")
        .create(control_plane)
        .await?;
    Ok((gpu, cpu))
}
