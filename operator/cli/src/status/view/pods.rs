//! The pods of a job, by node.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::ranges;

use crate::output::clean;
use crate::output::{Cell, Table, Tone, age, until};
use crate::pods::{Missing, PodLine};
use crate::status::report::Report;

/// With more rows than these, nodes whose pods do the same well are one row.
const ROWS: usize = 12;

/// Pods of one group on one node, or on several, that do the same.
struct Row<'a> {
    first: &'a PodLine,
    pods: Vec<&'a PodLine>,
    nodes: BTreeSet<&'a str>,
}

impl<'a> Row<'a> {
    fn of(pod: &'a PodLine) -> Self {
        Self {
            first: pod,
            pods: vec![pod],
            nodes: pod.node.as_deref().into_iter().collect(),
        }
    }

    fn does_as(&self, other: &PodLine) -> bool {
        let own = self.first;
        own.group == other.group && own.attempt == other.attempt && own.state == other.state
    }

    fn is_well(&self) -> bool {
        self.first.state.tone() == Tone::Good && self.first.state.restarts == 0
    }
}

/// The table. `wide`: a row for each node, and more columns.
#[must_use]
pub fn table(report: &Report, now: Timestamp, wide: bool) -> Table {
    let mut columns = vec![
        "NODE", "GROUP", "RANKS", "STATE", "READY", "RESTARTS", "EXIT",
    ];
    if wide {
        columns.extend(["INDEXES", "ATTEMPT", "ROUND", "AGE"]);
    }
    columns.push("NOTE");
    let mut table = Table::new(columns);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for pod in &report.pods {
        let same = |row: &&mut Row<'_>| {
            let is_alike = row.first.node == pod.node && row.does_as(pod);
            is_alike && (!wide || row.first.round == pod.round)
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.pods.push(pod),
            None => rows.push(Row::of(pod)),
        }
    }
    if !wide && rows.len() > ROWS {
        rows = condensed(rows);
    }
    let status = report.job.status.as_ref();
    let current = status.and_then(|status| status.attempt);
    for row in &rows {
        table.row(cells(row, current, now, wide));
    }
    for missing in &report.missing {
        table.row(of_missing(missing, now, wide));
    }
    table
}

fn condensed(rows: Vec<Row<'_>>) -> Vec<Row<'_>> {
    let mut few: Vec<Row<'_>> = Vec::new();
    for row in rows {
        let same = |other: &&mut Row<'_>| other.is_well() && other.does_as(row.first);
        match few.iter_mut().find(same) {
            Some(other) => {
                other.pods.extend(row.pods);
                other.nodes.extend(row.nodes);
            }
            None => few.push(row),
        }
    }
    few
}

fn cells(row: &Row<'_>, current: Option<i64>, now: Timestamp, wide: bool) -> Vec<Cell> {
    let Row { first, pods, nodes } = row;
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
        ranges(&pods.iter().filter_map(|pod| pod.rank).collect()).into(),
        Cell::new(state.state.as_str(), state.tone()),
        format!("{ready}/{all}").into(),
        state.restarts.to_string().into(),
        exit.unwrap_or_else(|| "-".to_owned()).into(),
    ];
    if wide {
        let round = first.round.map(|round| round.to_string());
        let oldest = pods.iter().filter_map(|pod| pod.created).min();
        cells.extend([
            ranges(&pods.iter().map(|pod| pod.index).collect()).into(),
            first.attempt.to_string().into(),
            round.unwrap_or_else(|| "-".to_owned()).into(),
            oldest
                .map_or_else(String::new, |oldest| age(oldest, now))
                .into(),
        ]);
    }
    let earlier = current.filter(|current| first.attempt != *current);
    let earlier = earlier.map(|_| format!("of attempt {}", first.attempt));
    let said = state.message.as_deref().map(clean);
    let note: Vec<_> = earlier.into_iter().chain(said).collect();
    cells.push(note.join(": ").into());
    cells
}

fn of_missing(missing: &Missing, now: Timestamp, wide: bool) -> Vec<Cell> {
    let (word, tone) = match missing.done {
        true => ("Gone", Tone::Dim),
        false => ("Missing", Tone::Waits),
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
    let when = when.map(|time| format!(", not before {} from now", until(time, now)));
    cells.push(format!("{}{}", missing.why, when.unwrap_or_default()).into());
    cells
}
