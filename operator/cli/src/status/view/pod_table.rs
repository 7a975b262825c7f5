//! The pods of a job, by node.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::format_ranges;
use trellis_reads::pods::{MissingPods, PodHealth, PodLine};
use trellis_reads::report::StatusReport;

use crate::output::sanitize;
use crate::output::{Cell, Table, Tone, format_age, format_until};

/// Greatest number of rows before nodes with healthy pods share one row.
const ROWS: usize = 12;

/// Pods of one group with the same state, on one or several nodes.
struct PodRow<'a> {
    first: &'a PodLine,
    pods: Vec<&'a PodLine>,
    nodes: BTreeSet<&'a str>,
}

impl<'a> PodRow<'a> {
    fn from_pod(pod: &'a PodLine) -> Self {
        Self {
            first: pod,
            pods: vec![pod],
            nodes: pod.node.as_deref().into_iter().collect(),
        }
    }

    fn is_alike(&self, other: &PodLine) -> bool {
        let own = self.first;
        own.group == other.group && own.attempt == other.attempt && own.state == other.state
    }

    fn is_healthy(&self) -> bool {
        self.first.state.health() == PodHealth::Good && self.first.state.restarts == 0
    }
}

/// Builds the table. `wide`: one row per node, and more columns.
#[must_use]
pub fn build_table(report: &StatusReport, now: Timestamp, wide: bool) -> Table {
    let mut columns = vec![
        "NODE", "GROUP", "RANKS", "STATE", "READY", "RESTARTS", "EXIT",
    ];
    if wide {
        columns.extend(["INDEXES", "ATTEMPT", "ROUND", "AGE"]);
    }
    columns.push("NOTE");
    let mut table = Table::new(columns);
    let mut rows: Vec<PodRow<'_>> = Vec::new();
    for pod in &report.pods {
        let is_same = |row: &&mut PodRow<'_>| {
            let is_alike = row.first.node == pod.node && row.is_alike(pod);
            is_alike && (!wide || row.first.round == pod.round)
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => row.pods.push(pod),
            None => rows.push(PodRow::from_pod(pod)),
        }
    }
    if !wide && rows.len() > ROWS {
        rows = condense(rows);
    }
    let status = report.job.status.as_ref();
    let current = status.and_then(|status| status.attempt);
    for row in &rows {
        table.push_row(build_cells(row, current, now, wide));
    }
    for missing in &report.missing {
        table.push_row(missing_cells(missing, now, wide));
    }
    table
}

fn condense(rows: Vec<PodRow<'_>>) -> Vec<PodRow<'_>> {
    let mut few: Vec<PodRow<'_>> = Vec::new();
    for row in rows {
        let is_alike = |other: &&mut PodRow<'_>| other.is_healthy() && other.is_alike(row.first);
        match few.iter_mut().find(is_alike) {
            Some(other) => {
                other.pods.extend(row.pods);
                other.nodes.extend(row.nodes);
            }
            None => few.push(row),
        }
    }
    few
}

fn build_cells(row: &PodRow<'_>, current: Option<i64>, now: Timestamp, wide: bool) -> Vec<Cell> {
    let PodRow { first, pods, nodes } = row;
    let state = &first.state;
    let node = match nodes.len() {
        0 => "-".to_owned(),
        1 => nodes.first().copied().unwrap_or_default().to_owned(),
        several => format!("{several} nodes"),
    };
    let ready: usize = pods
        .iter()
        .map(|pod| pod.state.ready)
        .fold(0, usize::saturating_add);
    let all = pods.iter().map(|pod| pod.state.containers);
    let all = all.fold(0, usize::saturating_add);
    let exit = state.exit_code.map(|code| code.to_string());
    let mut cells = vec![
        Cell::from(node),
        first.group.as_str().into(),
        format_ranges(&pods.iter().filter_map(|pod| pod.rank).collect()).into(),
        Cell::new(state.state.as_str(), state.health().into()),
        format!("{ready}/{all}").into(),
        state.restarts.to_string().into(),
        exit.unwrap_or_else(|| "-".to_owned()).into(),
    ];
    if wide {
        let round = first.round.map(|round| round.to_string());
        let oldest = pods.iter().filter_map(|pod| pod.created).min();
        cells.extend([
            format_ranges(&pods.iter().map(|pod| pod.index).collect()).into(),
            first.attempt.to_string().into(),
            round.unwrap_or_else(|| "-".to_owned()).into(),
            oldest
                .map_or_else(String::new, |oldest| format_age(oldest, now))
                .into(),
        ]);
    }
    let earlier = current.filter(|current| first.attempt != *current);
    let earlier = earlier.map(|_| format!("of attempt {}", first.attempt));
    let message = state.message.as_deref().map(sanitize);
    let note: Vec<_> = earlier.into_iter().chain(message).collect();
    cells.push(note.join(": ").into());
    cells
}

fn missing_cells(missing: &MissingPods, now: Timestamp, wide: bool) -> Vec<Cell> {
    let (word, tone) = match missing.done {
        true => ("Gone", Tone::Dim),
        false => ("Missing", Tone::Waiting),
    };
    let mut cells = vec![
        Cell::from("-"),
        missing.group.as_str().into(),
        missing.ranks.as_str().into(),
        Cell::new(word, tone),
        format!("0/{}", missing.count).into(),
        "-".into(),
        "-".into(),
    ];
    if wide {
        cells.extend([
            missing.indexes.as_str().into(),
            "-".into(),
            "-".into(),
            "-".into(),
        ]);
    }
    let when = missing.not_before.filter(|time| *time > now);
    let when = when.map(|time| format!(", not before {} from now", format_until(time, now)));
    cells.push(format!("{}{}", missing.why, when.unwrap_or_default()).into());
    cells
}
