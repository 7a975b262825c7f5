//! `trellis nodes`: shows free devices, holders and problems, like Slurm's sinfo. `--check` shows
//! whether autoscalers suit gangs.

mod autoscaler_check;
mod device_counts;
mod map;
mod node_table;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::visibility::NodeState;

use crate::cluster::{ClusterClient, ClusterOptions, USER_AGENT};
use crate::command_view::{CommandView, ViewError, show_view};
use crate::output::{self, OutputFormat};
use trellis_reads::nodes::read_nodes;

/// Options of `trellis nodes`.
#[derive(clap::Args, Clone, Debug)]
pub struct NodesOptions {
    /// Show only these nodes.
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Show only nodes that accept pods and have free devices.
    #[arg(long)]
    free: bool,
    /// Show only nodes that accept no pods, with the reasons.
    #[arg(long, conflicts_with = "free")]
    bad: bool,
    /// Draw the devices of each node, grouped by racks or other topology domains.
    #[arg(long, conflicts_with = "output")]
    map: bool,
    /// Check whether the settings of autoscalers suit gangs: whether they would remove nodes of
    /// running gangs, buy nodes twice, or add none. Exit status 1: a setting must change. 2: the
    /// settings of a flavor are not visible.
    #[arg(long, conflicts_with_all = ["nodes", "free", "bad", "map", "watch"])]
    check: bool,
    /// Refresh the output every few seconds.
    #[arg(short, long)]
    watch: bool,
    /// Time between two refreshes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Output for scripts (json, yaml) or with more columns (wide).
    /// The fields of json and yaml are in docs/command-line.md.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Cluster and user.
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Shows the nodes.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &NodesOptions) -> anyhow::Result<ExitCode> {
    let cluster =
        ClusterClient::connect(&options.cluster.to_kubeconfig_options(), USER_AGENT, None)?;
    if options.check {
        return Ok(autoscaler_check::run(&cluster, options.output)?.into());
    }
    cluster.block_on(async {
        let reader = cluster.reader();
        let look = async || build_view(&read_nodes(&reader).await?, options);
        let every = options.watch.then(|| Duration::from_secs(options.interval));
        Ok(show_view(options.output, every, look).await?.into())
    })
}

/// Returns the text for an empty list of nodes.
fn empty_text(options: &NodesOptions) -> &'static str {
    match (options.bad, options.free) {
        (true, _) => "no node is bad\n",
        (_, true) => "no node has devices free\n",
        _ => "there is no node\n",
    }
}

fn has_name(node: &NodeState, name: &str) -> bool {
    node.metadata.name.as_deref() == Some(name)
}

fn build_view(nodes: &[NodeState], options: &NodesOptions) -> Result<CommandView, ViewError> {
    let missing = options
        .nodes
        .iter()
        .find(|name| !nodes.iter().any(|n| has_name(n, name)));
    if let Some(name) = missing {
        return Err(ViewError::not_found(format!(
            "there is no node {name:?}: `trellis nodes` lists all"
        )));
    }
    let mut listed: Vec<_> = nodes
        .iter()
        .filter(|node| {
            options.nodes.is_empty() || options.nodes.iter().any(|name| has_name(node, name))
        })
        .filter(|node| !options.free || device_counts::is_free(node))
        .filter(|node| !options.bad || !node.schedulable)
        .collect();
    listed.sort_by(|a, b| device_counts::sort_key(a).cmp(&device_counts::sort_key(b)));
    if let Some(text) = output::serialize_object(options.output, &listed)? {
        return Ok(text.into());
    }
    if listed.is_empty() {
        return Ok(empty_text(options).to_owned().into());
    }
    let wide = options.output == Some(OutputFormat::Wide);
    let mut text = match options.map {
        true => map::render_map(&listed),
        false => node_table::render_table(
            &listed,
            Timestamp::now(),
            wide,
            output::width().filter(|_| !wide),
        ),
    };
    text.push('\n');
    text.push_str(&device_counts::render_summary(&listed));
    Ok(text.into())
}
