//! Output formats of the queues.

use trellis_api::visibility::{GangName, JobState};

use crate::output::OutputFormat;

/// Output formats of objects with names.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueOutputFormat {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As a table with more columns.
    Wide,
    /// As kinds and names of jobs.
    Name,
}

impl QueueOutputFormat {
    /// Converts the format. None: the format shows only names.
    pub(super) const fn as_output_format(self) -> Option<OutputFormat> {
        match self {
            Self::Json => Some(OutputFormat::Json),
            Self::Yaml => Some(OutputFormat::Yaml),
            Self::Wide => Some(OutputFormat::Wide),
            Self::Name => None,
        }
    }
}

/// Renders one line per job, like kubectl's `-o name`.
pub(super) fn render_names(jobs: &[&JobState]) -> String {
    let names = jobs.iter().map(|job| {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        match GangName::from_object_name(name) {
            GangName::PodGroup(name) => format!("podgroup.trellis.dev/{name}\n"),
            GangName::Pod(name) => format!("pod/{name}\n"),
            GangName::Job(name) => format!("trainingjob.trellis.dev/{name}\n"),
        }
    });
    names.collect()
}
