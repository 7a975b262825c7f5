//! A report as people read it. Pure.

mod head;
mod pods;
mod said;
mod times;

pub use head::remedy;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::TrainingJobStatus;

use super::report::{ObjectState, Report};
use crate::events;
use crate::output::clean;
use crate::output::{Cell, Table, Tone, paint};

/// The text. `wide`: nothing is left out. `width`: columns of the terminal.
#[must_use]
pub fn text(report: &Report, now: Timestamp, wide: bool, width: Option<usize>) -> String {
    let mut out = head::text(report, now, width);
    let table = pods::table(report, now, wide);
    // Beyond the screen's end only for whoever asks for it.
    let room = width.filter(|_| !wide);
    section("Pods", &table, room, &mut out);
    section("Objects", &objects(report), room, &mut out);
    section(
        "Events",
        &events::table(&report.events, now),
        room,
        &mut out,
    );
    for unread in &report.unread {
        let note = format!("\nnote: {}\n", clean(&unread.why));
        out.push_str(&paint(&note, Tone::Waits));
    }
    out
}

fn section(title: &str, table: &Table, width: Option<usize>, out: &mut String) {
    if table.is_empty() {
        return;
    }
    out.push('\n');
    out.push_str(&paint(title, Tone::Head));
    out.push('\n');
    out.push_str(&table.text(2, width));
}

fn objects(report: &Report) -> Table {
    let mut table = Table::new(["KIND", "NAME", "STATE", "NOTE"]);
    let status = report.job.status.as_ref();
    let has_ended = status.is_some_and(TrainingJobStatus::has_ended);
    for object in &report.objects {
        let tone = match object.state {
            ObjectState::There => Tone::Good,
            // What a job has made is removed some time after its end.
            ObjectState::Missing if has_ended => Tone::Dim,
            ObjectState::Missing | ObjectState::NotOurs => Tone::Bad,
            ObjectState::Forbidden | ObjectState::Unread => Tone::Dim,
        };
        table.row([
            object.kind.as_str().into(),
            object.name.as_str().into(),
            Cell::new(object.state.word(), tone),
            clean(object.problem.as_deref().unwrap_or_default()).into(),
        ]);
    }
    table
}
