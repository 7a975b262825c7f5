//! Starts a control plane with simulated GPU nodes to play with, and ends it on Ctrl-C.

use anyhow::Result;
use clap::Parser;
use trellis_e2e::{
    cluster::Nodes,
    control_plane::{ControlPlane, Options},
};

/// A control plane with simulated GPU nodes, until Ctrl-C.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// GPUs a node.
    #[arg(long, default_value_t = 8)]
    gpus: u32,
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
    let control_plane = ControlPlane::start(Options {
        manifests,
        ..Options::default()
    })
    .await?;
    let _nodes = Nodes::new(arguments.nodes)
        .gpus(arguments.gpus)
        .blocks()
        .create(&control_plane)
        .await?;
    println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
    println!("{}", control_plane.kubectl_alias());
    eprintln!(
        "logs are in {}; Ctrl-C ends it",
        control_plane.logs().display()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}
