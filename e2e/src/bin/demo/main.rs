//! Trellis in two minutes: a control plane with simulated GPU nodes, the
//! operator on it, and the examples, step by step. What is not as it says ends
//! it with an error.

mod real;
mod screen;
mod steps;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use trellis_e2e::cluster::{NodeSet, Nodes};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::control_plane::free_port;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::visibility;
use trellis_e2e::volumes;

/// GPU nodes: enough for each of the examples, not for all of them at once.
const GPU_NODES: usize = 12;
/// GPUs of one of them.
const GPUS: u32 = 8;
/// Nodes without GPUs.
const CPU_NODES: usize = 2;

/// Claims that `examples/finetune-with-data.yaml` expects to be there.
const CLAIMS: [&str; 2] = ["datasets", "checkpoints"];

/// Trellis on a control plane with simulated GPU nodes, until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Arguments {
    /// End after the last step, with status 0 if each went as it says.
    #[arg(long)]
    once: bool,
    /// Real nodes, with kubelet and containerd, and PyTorch on the CPU, in place of simulated
    /// ones: for who is root.
    #[arg(long)]
    real_nodes: bool,
}

fn main() -> ExitCode {
    // The demo is its own `trellis`, operator and command line: `cargo run` builds no other binary.
    let mut given = std::env::args();
    let name = given.next().unwrap_or_default();
    let first = given.next().unwrap_or_default();
    let is_trellis = Path::new(&name).file_name() == Some("trellis".as_ref());
    if is_trellis || !(first.is_empty() || first.starts_with('-')) {
        return trellis::cli::run(trellis::cli::Cli::parse());
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
        // Either way what was started is dropped, and with it the control plane.
        tokio::select! {
            result = run(arguments) => result,
            signal = tokio::signal::ctrl_c() => {
                signal?;
                if arguments.once {
                    anyhow::bail!("interrupted before the last step");
                }
                screen::say("\nended");
                Ok(())
            }
        }
    })
}

async fn run(arguments: &Arguments) -> Result<()> {
    if arguments.real_nodes {
        return real::run(arguments.once).await;
    }
    screen::step("a control plane (etcd, kube-apiserver, kube-controller-manager, kwok)");
    let control_plane = ControlPlane::start(operator::options()?).await?;
    let _nodes = nodes(&control_plane).await?;
    screen::say(&format!(
        "{GPU_NODES} simulated nodes of {GPUS} GPUs, labelled by block and rack, {CPU_NODES} nodes without"
    ));

    screen::step(
        "CRDs, roles, the default queue and the starter policies from charts/trellis, and the operator",
    );
    let claims = volumes::bound("default", &CLAIMS);
    control_plane.apply_yaml(&claims).await?;
    let operator = operate(&control_plane).await?;

    steps::all(&control_plane)
        .await
        .with_context(|| format!("operator: {}", operator.last_words()))?;

    yours(&control_plane, arguments.once).await
}

/// Installs Trellis and starts the operator, which the API server asks about queues and nodes.
pub(crate) async fn operate(control_plane: &ControlPlane) -> Result<Operator> {
    operator::install(control_plane).await?;
    let port = free_port()?;
    visibility::install(control_plane, port).await?;
    let operator = visibility::start(control_plane, &program()?, port).await?;
    let asked = visibility::becomes(control_plane, true).await;
    asked.with_context(|| format!("operator: {}", operator.last_words()))?;
    Ok(operator)
}

/// The demo's own program, which is `trellis` too.
pub(crate) fn program() -> Result<PathBuf> {
    std::env::current_exe().context("find the demo's own program")
}

/// What is left to the user, until Ctrl-C.
pub(crate) async fn yours(control_plane: &ControlPlane, once: bool) -> Result<()> {
    if once {
        screen::say("\nall as it should be");
        return Ok(());
    }
    screen::step("yours, until Ctrl-C");
    screen::say(&format!(
        "export KUBECONFIG={}",
        control_plane.kubeconfig().display()
    ));
    screen::say(&control_plane.tools(&[("trellis", &program()?)])?);
    screen::say(&format!("logs: {}", control_plane.logs().display()));
    std::future::pending().await
}

/// The nodes go with the control plane, or when the sets are dropped.
async fn nodes(control_plane: &ControlPlane) -> Result<(NodeSet, NodeSet)> {
    let gpu = Nodes::new(GPU_NODES)
        .gpus(GPUS)
        .capacity("cpu", "128")
        .capacity("memory", "2Ti")
        .blocks()
        .gpu_taint()
        .create(control_plane)
        .await?;
    let cpu = Nodes::new(CPU_NODES)
        .name("cpu-{i}")
        .gpus(0)
        .capacity("cpu", "16")
        .capacity("memory", "64Gi")
        .create(control_plane)
        .await?;
    Ok((gpu, cpu))
}
