//! `trellis what-if`: shows which jobs start earlier or later after changes of the cluster.

mod changes;
mod moved_jobs;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use trellis_api::visibility::{Forecast, ForecastChange, ForecastSpec, ForecastStatus};
use trellis_forecast::forecast_changes;
use trellis_reads::forecast::ask_forecast;

use crate::exit::Exit;
use crate::files::engine_snapshot::read_snapshot;
use crate::files::objects::read_file_objects;
use crate::output::{self, OutputFormat, print};
use crate::target::{NamespaceOptions, TargetNamespace};
use changes::ChangeOptions;

/// Most moments at which jobs start or end, in a forecast from a file.
const MAX_MOMENTS: usize = 1_000_000;

/// Options of `trellis what-if`.
#[derive(clap::Args, Clone, Debug)]
pub struct WhatIfOptions {
    #[command(flatten)]
    changes: ChangeOptions,
    /// Read a Forecast from this file, or from standard input with -.
    /// Its changes are made before those of the options.
    #[arg(short, long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Start from a snapshot that the operator wrote, and read no cluster.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Output for scripts (json, yaml) or with more columns (wide).
    /// json and yaml have the Forecast with its status.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Namespace of jobs that are written without one, and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Shows the jobs that the changes move.
///
/// # Errors
/// If a change cannot be made, or no scheduler answers.
pub fn run(options: &WhatIfOptions) -> anyhow::Result<ExitCode> {
    let mut changes = match options.file.as_deref().map(read_question).transpose()? {
        Some(Ok(changes)) => changes,
        Some(Err(exit)) => return Ok(exit),
        None => Vec::new(),
    };
    let source = ForecastSource::from_options(options)?;
    // A job of the file may be named after an earlier use of the options.
    let added = changes
        .iter()
        .filter(|change| matches!(change, ForecastChange::AddJob(_)));
    let first_number = added.count().saturating_add(1);
    let own = &options.changes;
    changes.extend(own.to_changes(source.namespace(), first_number)?);
    if changes.is_empty() {
        bail!("no change is given: `trellis what-if --help` lists them");
    }
    let mut forecast = Forecast::new(changes);
    let status = source.forecast(&forecast.spec)?;
    let wide = options.output == Some(OutputFormat::Wide);
    let width = output::width().filter(|_| !wide);
    let text = moved_jobs::render(&status, wide, width);
    forecast.status = Some(status);
    let object = output::serialize_object(options.output, &forecast)?;
    print(&object.unwrap_or(text))?;
    Ok(Exit::Done.into())
}

/// The state from which a forecast starts.
enum ForecastSource<'a> {
    /// The present state of a cluster.
    Cluster(Box<TargetNamespace>),
    /// A snapshot in a file, and the namespace of jobs that are written without one.
    Snapshot(&'a Path, Option<&'a str>),
}

impl<'a> ForecastSource<'a> {
    fn from_options(options: &'a WhatIfOptions) -> anyhow::Result<Self> {
        Ok(match &options.snapshot {
            Some(file) => Self::Snapshot(file, options.target.namespace.as_deref()),
            None => Self::Cluster(Box::new(options.target.connect()?)),
        })
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster(site) => Some(&site.reader.namespace),
            Self::Snapshot(_, namespace) => *namespace,
        }
    }

    fn forecast(&self, spec: &ForecastSpec) -> anyhow::Result<ForecastStatus> {
        match self {
            Self::Cluster(site) => {
                let asked = ask_forecast(&site.reader, spec.clone());
                site.cluster.block_on(asked).map_err(|error| error.message)
            }
            Self::Snapshot(file, _) => forecast_from_file(file, spec),
        }
    }
}

/// Reads the changes of a Forecast in a file. Prints the problems of an invalid file.
fn read_question(file: &Path) -> anyhow::Result<Result<Vec<ForecastChange>, ExitCode>> {
    let mut problems = Vec::new();
    let mut changes = Vec::new();
    for object in read_file_objects(file) {
        match object {
            Ok(source) => match source.document.decode::<Forecast>() {
                Ok(forecast) => changes.extend(forecast.spec.changes),
                Err(found) => problems.extend(source.to_problems(found)),
            },
            Err(problem) => problems.push(problem),
        }
    }
    Ok(match problems.is_empty() {
        true => Ok(changes),
        false => Err(output::print_problems(&problems)),
    })
}

fn forecast_from_file(file: &Path, spec: &ForecastSpec) -> anyhow::Result<ForecastStatus> {
    let snapshot = read_snapshot(file)
        .with_context(|| format!("cannot forecast from \"{}\"", file.display()))?;
    Ok(forecast_changes(&snapshot, spec, || {
        |moments| moments < MAX_MOMENTS
    })?)
}
