//! Starts a control plane with GPU nodes for experiments, and ends it on Ctrl-C.

use anyhow::{Result, bail};
use clap::Parser;
use trellis_e2e::{
    cluster::NodeTemplate,
    control_plane::{ControlPlane, ControlPlaneOptions},
    real_nodes::{self, RealNode, RealNodes},
};

/// A control plane with GPU nodes, until Ctrl-C.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of simulated nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// GPUs per node.
    #[arg(long, default_value_t = 8)]
    gpus: u32,
    /// Number of real nodes instead of simulated ones, with kubelet, containerd and runc. Requires
    /// root.
    #[arg(long, default_value_t = 0)]
    real_nodes: usize,
    /// YAML files to apply first, such as CRDs.
    #[arg(long)]
    apply: Vec<std::path::PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let manifests = arguments
        .apply
        .iter()
        .map(std::fs::read_to_string)
        .collect::<Result<_, _>>()?;
    let mut options = ControlPlaneOptions {
        manifests,
        ..ControlPlaneOptions::default()
    };
    if arguments.real_nodes > 0 {
        if let Some(reason) = real_nodes::unavailable_reason() {
            bail!("{reason}");
        }
        options = real_nodes::with_real_nodes(options);
    }
    let control_plane = ControlPlane::start(options).await?;
    // The nodes are removed when these values are dropped.
    let (_simulated, _real);
    if arguments.real_nodes > 0 {
        let nodes: Vec<RealNode> = (0..arguments.real_nodes)
            .map(|index| RealNode::new(&format!("real-{index}"), arguments.gpus))
            .collect();
        _real = RealNodes::start(&control_plane, &nodes).await?;
    } else {
        let nodes = NodeTemplate::new(arguments.nodes)
            .gpus(arguments.gpus)
            .blocks();
        _simulated = nodes.create(&control_plane).await?;
    }
    println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
    println!("{}", control_plane.shell_path_line(&[])?);
    eprintln!(
        "logs are in {}; Ctrl-C ends it",
        control_plane.logs_folder().display()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}
