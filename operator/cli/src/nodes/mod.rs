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

use crate::cluster::{AGENT, Access, Cluster, Hints};
use crate::exit::Exit;
use crate::output::{self, Format, Screen, warn};
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
    /// For scripts (json, yaml), or with more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Which cluster.
    #[command(flatten)]
    access: Access,
}

/// Shows the nodes.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&options.access, AGENT, None)?;
    cluster.wait_for(async {
        let api = Api::<NodeState>::all(cluster.client().clone());
        let mut screen = Screen::new(options.output);
        loop {
            let nodes = match visible::all(&api)
                .await
                .map_err(|error| error.explain(&hints()))?
            {
                Visible::Told(nodes) => nodes,
                Visible::Nothing => Vec::new(),
                Visible::Denied(message) => {
                    warn(&format!("error: {message}: {}", hints().rights));
                    return Ok(Exit::Invalid.into());
                }
                Visible::Unserved(why) => {
                    warn(&format!("error: {why}"));
                    return Ok(Exit::Invalid.into());
                }
            };
            let missing = options
                .nodes
                .iter()
                .find(|name| !nodes.iter().any(|n| is(n, name)));
            if let Some(name) = missing {
                warn(&format!(
                    "error: there is no node {name:?}: `trellis nodes` lists all"
                ));
                return Ok(Exit::Not.into());
            }
            let text = shown(&nodes, options)?;
            match options.watch {
                false => {
                    output::print(&text)?;
                    return Ok(Exit::Done.into());
                }
                true => screen.show(&text)?,
            }
            tokio::time::sleep(Duration::from_secs(options.interval)).await;
        }
    })
}

fn hints() -> Hints {
    Hints {
        rights: "the ClusterRole trellis-platform has it: list nodestates.visibility.trellis.dev"
            .to_owned(),
        otherwise: None,
    }
}

fn is(node: &NodeState, name: &str) -> bool {
    node.metadata.name.as_deref() == Some(name)
}

fn shown(nodes: &[NodeState], options: &Options) -> anyhow::Result<String> {
    let mut of: Vec<_> = nodes
        .iter()
        .filter(|node| options.nodes.is_empty() || options.nodes.iter().any(|name| is(node, name)))
        .filter(|node| !options.free || sums::is_free(node))
        .filter(|node| !options.bad || !node.schedulable)
        .collect();
    of.sort_by(|a, b| sums::place(a).cmp(&sums::place(b)));
    if let Some(text) = output::object(options.output, &of)? {
        return Ok(text);
    }
    if of.is_empty() {
        return Ok("no node is so\n".to_owned());
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
    Ok(text)
}
