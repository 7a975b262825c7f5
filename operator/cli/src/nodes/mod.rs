//! `trellis nodes`: what is free, who holds the rest, and what is wrong where, as Slurm's sinfo.

mod map;
mod rows;
mod sums;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use trellis_api::visibility::NodeState;

use crate::cluster::{AGENT, Cluster, Hints, Reach};
use crate::look::{Look, Unseen, rounds};
use crate::output::{self, Format};
use crate::visible::{self, Visible};

/// What of the nodes.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only these nodes.
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Only nodes that have devices free and take pods.
    #[arg(long)]
    free: bool,
    /// Only nodes that take no pods, and why.
    #[arg(long, conflicts_with = "free")]
    bad: bool,
    /// Draw the devices of each node, by rack and whatever else the Topologies say of it.
    #[arg(long, conflicts_with = "output")]
    map: bool,
    /// Show it again every few seconds.
    #[arg(short, long)]
    watch: bool,
    /// How often, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// For scripts (json, yaml: docs/command-line.md), or with more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Which cluster.
    #[command(flatten)]
    reach: Reach,
}

/// Shows the nodes.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&options.reach.access(), AGENT, None)?;
    cluster.wait_for(async {
        let api = Api::<NodeState>::all(cluster.client().clone());
        let look = async || shown(&seen(&api, cluster.patience()).await?, options);
        let every = options.watch.then(|| Duration::from_secs(options.interval));
        Ok(rounds(options.output, every, look).await?.into())
    })
}

async fn seen(api: &Api<NodeState>, patience: Option<Duration>) -> Result<Vec<NodeState>, Unseen> {
    let seen = visible::all(api, patience).await.map_err(|error| {
        let is_denied = error.is_denied();
        Unseen::new(is_denied, error.explain(&hints()))
    })?;
    match seen {
        Visible::Told(nodes) => Ok(nodes),
        Visible::Nothing => Ok(Vec::new()),
        Visible::Denied(message) => {
            let why = format!("{message}: {}", hints().rights);
            Err(Unseen::denied(why))
        }
        Visible::Unserved(why) => Err(Unseen::now(why.to_owned())),
    }
}

fn hints() -> Hints {
    Hints {
        rights: "the ClusterRole trellis-platform has it: list nodestates.visibility.trellis.dev"
            .to_owned(),
        otherwise: None,
    }
}

/// The answer where no node is left to show.
fn none(options: &Options) -> &'static str {
    match (options.bad, options.free) {
        (true, _) => "no node is bad\n",
        (_, true) => "no node has devices free\n",
        _ => "there is no node\n",
    }
}

fn is(node: &NodeState, name: &str) -> bool {
    node.metadata.name.as_deref() == Some(name)
}

fn shown(nodes: &[NodeState], options: &Options) -> Result<Look, Unseen> {
    let missing = options
        .nodes
        .iter()
        .find(|name| !nodes.iter().any(|n| is(n, name)));
    if let Some(name) = missing {
        return Err(Unseen::not_there(format!(
            "there is no node {name:?}: `trellis nodes` lists all"
        )));
    }
    let mut of: Vec<_> = nodes
        .iter()
        .filter(|node| options.nodes.is_empty() || options.nodes.iter().any(|name| is(node, name)))
        .filter(|node| !options.free || sums::is_free(node))
        .filter(|node| !options.bad || !node.schedulable)
        .collect();
    of.sort_by(|a, b| sums::place(a).cmp(&sums::place(b)));
    if let Some(text) = output::object(options.output, &of)? {
        return Ok(text.into());
    }
    if of.is_empty() {
        return Ok(none(options).to_owned().into());
    }
    let wide = options.output == Some(Format::Wide);
    let mut text = match options.map {
        true => map::text(&of),
        false => rows::text(
            &of,
            Timestamp::now(),
            wide,
            output::width().filter(|_| !wide),
        ),
    };
    text.push('\n');
    text.push_str(&sums::text(&of));
    Ok(text.into())
}
