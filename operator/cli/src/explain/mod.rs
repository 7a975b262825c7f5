//! `trellis explain`: explains why a job waits, with current numbers.
//! It shows what the job lacks, whether each node fits, which jobs would be preempted, the smallest
//! change that would help, and the past events.

mod node_list;
mod shortage;
#[cfg(test)]
mod tests;
mod view;

use std::process::ExitCode;

use anyhow::anyhow;
use k8s_openapi::jiff::Timestamp;
use trellis_api::visibility::GangName;
use trellis_reads::explain::read_facts;

use crate::exit::Exit;
use crate::output::{self, OutputFormat, warn};
use crate::target::{NamespaceOptions, parse_gang_name};

/// Options of `trellis explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct ExplainOptions {
    /// The job: NAME or tj/NAME. For external pods: podgroup/NAME or pod/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// Output for scripts (json, yaml), or with the names of all nodes (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Explains the object.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &ExplainOptions) -> anyhow::Result<ExitCode> {
    let name = parse_gang_name(&options.job)?;
    let site = options.target.connect()?;
    let known = site.cluster.block_on(read_facts(&site.reader, &name))?;
    let Some(known) = known else {
        let error = match &name {
            GangName::Job(name) => site.reader.not_found_error(name),
            other => anyhow!(
                "there is no {other} in namespace {:?}",
                site.reader.namespace
            ),
        };
        warn(&format!("error: {error:#}"));
        return Ok(Exit::Negative.into());
    };
    let text = match output::serialize_object(options.output, &known)? {
        Some(text) => text,
        None => {
            let wide = options.output == Some(OutputFormat::Wide);
            let width = output::width().unwrap_or(100);
            view::render(&known, Timestamp::now(), wide, width)
        }
    };
    output::print(&text)?;
    Ok(Exit::Done.into())
}
