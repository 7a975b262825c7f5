//! Renders a report for people. Pure.

mod labelled_lines;
mod pod_table;
mod status_head;
mod times;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::TrainingJobStatus;
use trellis_reads::report::{ChildState, StatusReport};

use crate::events;
use crate::output::sanitize;
use crate::output::{Cell, Table, Tone, paint};

/// Renders the report.
/// `wide`: nothing is left out. `width`: columns of the terminal.
#[must_use]
pub fn render_report(
    report: &StatusReport,
    now: Timestamp,
    wide: bool,
    width: Option<usize>,
) -> String {
    let mut out = status_head::render_head(report, now, width);
    let table = pod_table::build_table(report, now, wide);
    // Only the wide format may be wider than the screen.
    let room = width.filter(|_| !wide);
    push_section("Pods", &table, room, &mut out);
    push_section("Objects", &build_objects_table(report), room, &mut out);
    push_section(
        "Events",
        &events::build_table(&report.events, now),
        room,
        &mut out,
    );
    for unread in &report.unread {
        let note = format!("\nnote: {}\n", sanitize(&unread.why));
        out.push_str(&paint(&note, Tone::Waiting));
    }
    out
}

fn push_section(title: &str, table: &Table, width: Option<usize>, out: &mut String) {
    if table.is_empty() {
        return;
    }
    out.push('\n');
    out.push_str(&paint(title, Tone::Head));
    out.push('\n');
    out.push_str(&table.render(2, width));
}

fn build_objects_table(report: &StatusReport) -> Table {
    let mut table = Table::new(["KIND", "NAME", "STATE", "NOTE"]);
    let status = report.job.status.as_ref();
    let has_ended = status.is_some_and(TrainingJobStatus::has_ended);
    for object in &report.objects {
        let tone = match object.state {
            ChildState::There => Tone::Good,
            // The operator removes the objects of a job some time after its end.
            ChildState::Missing if has_ended => Tone::Dim,
            ChildState::Missing | ChildState::NotOurs => Tone::Bad,
            ChildState::Forbidden | ChildState::Unread => Tone::Dim,
        };
        table.push_row([
            object.kind.as_str().into(),
            object.name.as_str().into(),
            Cell::new(object.state.as_str(), tone),
            sanitize(object.problem.as_deref().unwrap_or_default()).into(),
        ]);
    }
    table
}
