//! `trellis top`: what jobs make of the GPUs that they hold, as NVIDIA's DCGM exporter tells it.

mod exposition;
mod gpu;
mod read;
#[cfg(test)]
mod tests;
mod usage;
mod view;

pub use usage::Usage;

use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Format, object, print, warn, width};
use crate::target::{Place, Site, job_name};
use read::Found;

/// Which jobs, and who is asked.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Each GPU of this job: NAME or tj/NAME. Without it, all jobs that hold GPUs.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// The namespace of the DCGM exporter. Without it, wherever there is one.
    #[arg(long, value_name = "NAMESPACE")]
    exporter_namespace: Option<String>,
    /// Labels of the DCGM exporter's pods. Without it, those of its chart and of the GPU operator.
    #[arg(long, value_name = "LABELS")]
    exporter_selector: Option<String>,
    /// For scripts (json, yaml: docs/command-line.md), or with more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Where. Without a namespace, all of them, or that of the context for whoever may not see all;
    /// of one job that of the context.
    #[command(flatten)]
    place: Place,
}

/// What jobs make of their GPUs, as of one moment.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Top {
    /// The jobs that hold GPUs, those that waste most first.
    pub jobs: Vec<Usage>,
    /// Exporters that were asked.
    pub exporters: usize,
    /// What could not be read, and what is to be known of the rest.
    pub notes: Vec<String>,
}

/// Shows it. Exit status: 0 done, 1 there is no such job, 2 no cluster or no exporter.
///
/// # Errors
/// If a name is none, or the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let job = options.job.as_deref().map(job_name).transpose()?;
    let site = options.place.connect()?;
    site.cluster
        .wait_for(show(&site, options, job.as_deref()))
        .map(ExitCode::from)
}

async fn show(site: &Site, options: &Options, job: Option<&str>) -> anyhow::Result<Exit> {
    let everywhere = job.is_none() && options.place.namespace.is_none();
    let mut held = read::held(site, everywhere).await?;
    if let Some(name) = job {
        held.keep(name);
        if held.jobs.is_empty() {
            warn(&format!("error: {:#}", site.not_there(name)));
            return Ok(Exit::Not);
        }
    }
    let found = read::exporters(
        site,
        options.exporter_namespace.as_deref(),
        options.exporter_selector.as_deref(),
    );
    let (client, nodes) = (site.cluster.client(), held.nodes());
    let scraped = match found.await? {
        Found::None(none) => {
            let are_simulated = read::are_simulated(client, &nodes).await;
            warn(&format!("error: {}", none.explain(are_simulated)));
            return Ok(Exit::Invalid);
        }
        Found::Some(exporters) => read::scrape(client, &exporters, &nodes).await,
    };
    if let Some(why) = scraped.nothing() {
        warn(&format!("error: {why}"));
        return Ok(Exit::Invalid);
    }
    let are_simulated = scraped.is_elsewhere() && read::are_simulated(client, &nodes).await;
    let mut notes = held.notes;
    notes.extend(scraped.notes(are_simulated));
    let top = Top {
        jobs: usage::usage(&held.jobs, &held.pods, &scraped.gpus),
        exporters: scraped.asked,
        notes,
    };
    let text = match object(options.output, &top)? {
        Some(text) => text,
        None => {
            let wide = options.output == Some(Format::Wide);
            match job {
                Some(_) => view::gpus(&top, wide, width()),
                None => view::jobs(&top, wide, width()),
            }
        }
    };
    print(&text)?;
    Ok(Exit::Done)
}
