//! Prints the events of a simulation while it runs.

use std::io::{BufWriter, Stdout, Write};
use std::time::Duration;

use serde::Serialize;
use trellis_scheduler::{Gang, NodeName, Placement};
use trellis_simulate::{SimulationRecord, SimulationSummary, to_seconds};

use super::SimulateFormat;
use trellis_reads::text::{format_nodes, format_runs};

/// The last line of `-o jsonl`.
#[derive(Serialize)]
struct SummaryLine<'a> {
    t: Option<f64>,
    event: &'static str,
    #[serde(flatten)]
    summary: &'a SimulationSummary,
}

/// Writes to standard output. A closed pipe is no error.
pub(super) struct Printer {
    format: SimulateFormat,
    out: BufWriter<Stdout>,
    /// True: the output for people also contains the events.
    timeline: bool,
    failed: Option<std::io::Error>,
}

impl Printer {
    pub(super) fn new(format: SimulateFormat) -> Self {
        Self {
            format,
            out: BufWriter::new(std::io::stdout()),
            timeline: false,
            failed: None,
        }
    }

    /// Adds the events to the output for people.
    pub(super) fn with_timeline(&mut self) {
        self.timeline = true;
    }

    pub(super) fn print_record(&mut self, record: &SimulationRecord<'_>) {
        if self.failed.is_some() {
            return;
        }
        let written = match self.format {
            SimulateFormat::Jsonl => serde_json::to_writer(&mut self.out, record)
                .map_err(std::io::Error::from)
                .and_then(|()| self.out.write_all(b"\n")),
            SimulateFormat::Table if self.timeline => {
                let line = format_line(record);
                self.out.write_all(line.as_bytes())
            }
            SimulateFormat::Table | SimulateFormat::Json => Ok(()),
        };
        self.failed = written.err();
    }

    /// Prints the summary.
    /// `wall`: the real time of the run. The output of events omits it, so that the same input
    /// always gives the same output.
    pub(super) fn print_summary(
        mut self,
        mut summary: SimulationSummary,
        wall: Duration,
    ) -> anyhow::Result<()> {
        if self.format != SimulateFormat::Jsonl {
            summary.wall_seconds = Some(wall.as_secs_f64());
        }
        let text = match self.format {
            SimulateFormat::Table if self.timeline => {
                // The same files always give the same output.
                summary.wall_seconds = None;
                format!("\n{}", summary.render_table())
            }
            SimulateFormat::Table => summary.render_table(),
            SimulateFormat::Json => format!("{}\n", serde_json::to_string(&summary)?),
            SimulateFormat::Jsonl => {
                let last = SummaryLine {
                    t: summary.end_seconds,
                    event: "summary",
                    summary: &summary,
                };
                format!("{}\n", serde_json::to_string(&last)?)
            }
        };
        let written = match self.failed {
            None => self.out.write_all(text.as_bytes()),
            Some(error) => Err(error),
        };
        match written.and_then(|()| self.out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Formats a placement with the sizes of the slices, coarse to fine, in one line.
fn format_place(gang: &Gang, placement: &Placement) -> String {
    let slices = gang.groups.iter().filter(|group| !group.slices.is_empty());
    let slices = slices.map(|group| {
        let sizes: Vec<String> = group.slices.iter().map(|s| s.pods.to_string()).collect();
        let verb = match group.prefers_slices {
            true => "prefers",
            false => "in",
        };
        format!("; {} {verb} slices of {}", group.name, sizes.join(" and "))
    });
    format_placement(placement) + &slices.collect::<String>()
}

/// Formats the placement of a whole gang in one line.
pub(crate) fn format_placement(placement: &Placement) -> String {
    let groups = placement.groups().iter().map(|group| {
        let runs = group.runs.iter().map(|(node, pods)| (node.as_str(), *pods));
        format!("{}: {}", group.group, format_runs(runs))
    });
    groups.collect::<Vec<_>>().join("; ")
}

/// Formats an event as a line.
/// For example: `     12 s  placed     default/a worker: 8 on each of gpu-0..gpu-7`.
fn format_line(record: &SimulationRecord<'_>) -> String {
    let (t, event, subject, detail) = match record {
        SimulationRecord::Job(record) => {
            let mut detail = record.reason.clone();
            if let Some((gang, placement)) = record.placement {
                let separator = if detail.is_empty() { "" } else { "; " };
                let place = format_place(gang, placement);
                detail = format!("{place}{separator}{detail}");
            }
            let subject = record.job.to_string();
            (record.t, record.event.as_str(), subject, detail)
        }
        SimulationRecord::Nodes(record) => {
            let nodes = format_nodes(record.nodes.iter().map(NodeName::as_str));
            let subject = format!("flavor {}", record.flavor.as_str());
            (record.t, record.event.as_str(), subject, nodes)
        }
    };
    let time = format!("{} s", to_seconds(t));
    let line = format!("{time:>12}  {event:<10} {subject} {detail}");
    format!("{}\n", line.trim_end())
}
