//! `trellis status`: shows one job on one screen.
//! The screen combines the content of `kubectl describe`, `kubectl get pods` and `systemctl
//! status`.

#[cfg(test)]
mod tests;
mod view;
mod watch;

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use trellis_reads::report::{StatusReport, read_report};

use crate::exit::Exit;
use crate::output::{OutputFormat, print, serialize_object, warn, width};
use crate::target::{NamespaceOptions, TargetNamespace, parse_job_name};

/// Options of `trellis status`.
#[derive(clap::Args, Clone, Debug)]
pub struct StatusOptions {
    /// The job: NAME or tj/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// Refresh the output at every change, until the job has ended.
    #[arg(short, long)]
    watch: bool,
    /// Output for scripts (json, yaml) or with more columns (wide).
    /// With json and yaml, the output is one object (docs/command-line.md).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Shows the job. Exit status: 0 the job exists, 1 it does not, 2 no cluster.
///
/// # Errors
/// If the name is invalid, or the cluster cannot be reached.
pub fn run(options: &StatusOptions) -> anyhow::Result<ExitCode> {
    let name = parse_job_name(&options.job)?;
    let site = options.target.connect()?;
    let exit = match options.watch {
        true => site
            .cluster
            .block_on(watch::watch_job(&site, &name, options.output))?,
        false => site
            .cluster
            .block_on(show_once(&site, &name, options.output))?,
    };
    Ok(exit.into())
}

async fn show_once(
    site: &TargetNamespace,
    name: &str,
    format: Option<OutputFormat>,
) -> anyhow::Result<Exit> {
    let Some(report) = read_report(&site.reader, name).await? else {
        warn(&format!("error: {:#}", site.reader.not_found_error(name)));
        return Ok(Exit::Negative);
    };
    print(&render_report(&report, format, width())?)?;
    Ok(Exit::Done)
}

fn render_report(
    report: &StatusReport,
    format: Option<OutputFormat>,
    width: Option<usize>,
) -> anyhow::Result<String> {
    if let Some(text) = serialize_object(format, report)? {
        return Ok(text);
    }
    let is_wide = format == Some(OutputFormat::Wide);
    Ok(view::render_report(
        report,
        Timestamp::now(),
        is_wide,
        width,
    ))
}
