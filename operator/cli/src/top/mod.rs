//! `trellis top`: shows how jobs use their GPUs.
//! The data comes from NVIDIA's DCGM exporter.

mod dcgm;
mod exporters;
mod gpu_jobs;
mod prometheus_text;
mod scrape;
#[cfg(test)]
mod tests;
mod usage;
mod view;

pub use usage::GpuUsage;

use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Exit;
use crate::output::{OutputFormat, print, serialize_object, warn, width};
use crate::target::{NamespaceOptions, TargetNamespace, parse_job_name};
use exporters::ExporterSearch;

/// Options of `trellis top`.
#[derive(clap::Args, Clone, Debug)]
pub struct TopOptions {
    /// Show each GPU of this job: NAME or tj/NAME.
    /// Default: all jobs that hold GPUs.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// The namespace of the DCGM exporter. Default: search all namespaces.
    #[arg(long, value_name = "NAMESPACE")]
    exporter_namespace: Option<String>,
    /// Labels of the DCGM exporter's pods.
    /// Default: the labels of its chart and of the GPU operator.
    #[arg(long, value_name = "LABELS")]
    exporter_selector: Option<String>,
    /// Output for scripts (json, yaml) or with more columns (wide).
    /// The fields of json and yaml are in docs/command-line.md.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Namespace and cluster.
    /// Default: all namespaces, or the namespace of the context if the user may not see all of
    /// them. For one job, the default is the namespace of the context.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// The GPU usage of jobs at one moment.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TopReport {
    /// The jobs that hold GPUs, the most wasteful first.
    pub jobs: Vec<GpuUsage>,
    /// Number of exporters that were read.
    pub exporters: usize,
    /// Failed reads, and notes on the results.
    pub notes: Vec<String>,
}

/// Shows the GPU usage.
/// Exit status: 0 done, 1 the job does not exist, 2 no cluster or no exporter.
///
/// # Errors
/// If a name is invalid, or the cluster cannot be reached.
pub fn run(options: &TopOptions) -> anyhow::Result<ExitCode> {
    let job = options.job.as_deref().map(parse_job_name).transpose()?;
    let site = options.target.connect()?;
    site.cluster
        .block_on(show_usage(&site, options, job.as_deref()))
        .map(ExitCode::from)
}

async fn show_usage(
    site: &TargetNamespace,
    options: &TopOptions,
    job: Option<&str>,
) -> anyhow::Result<Exit> {
    let everywhere = job.is_none() && options.target.namespace.is_none();
    let mut held_gpus = gpu_jobs::list_gpu_jobs(site, everywhere).await?;
    if let Some(name) = job {
        held_gpus.retain_job(name);
        if held_gpus.jobs.is_empty() {
            warn(&format!("error: {:#}", site.reader.not_found_error(name)));
            return Ok(Exit::Negative);
        }
    }
    let found = exporters::find_exporters(
        site,
        options.exporter_namespace.as_deref(),
        options.exporter_selector.as_deref(),
    );
    let (client, nodes) = (site.cluster.client(), held_gpus.node_names());
    let scraped = match found.await? {
        ExporterSearch::Missing(none) => {
            let are_simulated = scrape::are_simulated(client, &nodes).await;
            warn(&format!("error: {}", none.explain(are_simulated)));
            return Ok(Exit::Invalid);
        }
        ExporterSearch::Exporters(exporters) => scrape::scrape(client, &exporters, &nodes).await,
    };
    if let Some(reason) = scraped.failure_reason() {
        warn(&format!("error: {reason}"));
        return Ok(Exit::Invalid);
    }
    let are_simulated = scraped.is_on_other_nodes() && scrape::are_simulated(client, &nodes).await;
    let mut notes = held_gpus.notes;
    notes.extend(scraped.notes(are_simulated));
    let top = TopReport {
        jobs: usage::measure_usage(&held_gpus.jobs, &held_gpus.pods, &scraped.gpus),
        exporters: scraped.exporters,
        notes,
    };
    let text = match serialize_object(options.output, &top)? {
        Some(text) => text,
        None => {
            let wide = options.output == Some(OutputFormat::Wide);
            match job {
                Some(_) => view::render_gpus(&top, wide, width()),
                None => view::render_jobs(&top, wide, width()),
            }
        }
    };
    print(&text)?;
    Ok(Exit::Done)
}
