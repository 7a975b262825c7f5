//! Renders one row per node. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::visibility::{NodeHold, NodeState};

use super::device_counts::{DeviceCounts, devices};
use crate::output::{Cell, Table, Tone, format_amount, format_until};

/// Greatest number of jobs in a row.
const MAX_JOBS: usize = 4;

pub(super) fn render_table(
    nodes: &[&NodeState],
    now: Timestamp,
    wide: bool,
    width: Option<usize>,
) -> String {
    let has_domains = nodes.iter().any(|node| !node.domains.is_empty());
    let mut columns = vec!["NODE", "STATE", "FREE", "DEVICES"];
    if has_domains {
        columns.push("WHERE");
    }
    if wide {
        columns.extend(["CPU FREE", "MEMORY FREE", "TAINTS"]);
    }
    columns.push("HELD BY");
    let mut table = Table::new(columns);
    for node in nodes {
        table.push_row(build_row(node, now, wide, has_domains));
    }
    table.render(0, width)
}

fn build_row(node: &NodeState, now: Timestamp, wide: bool, has_domains: bool) -> Vec<Cell> {
    let devices: Vec<(&str, DeviceCounts)> = devices(node).collect();
    let free = devices
        .iter()
        .map(|(_, units)| format!("{}/{}", units.free, units.total));
    let free: Vec<_> = free.collect();
    let names: Vec<_> = devices.iter().map(|(name, _)| (*name).to_owned()).collect();
    let or_none = |texts: Vec<String>| match texts.is_empty() {
        true => "-".to_owned(),
        false => texts.join(","),
    };
    let mut cells: Vec<Cell> = vec![
        node.metadata.name.clone().unwrap_or_default().into(),
        state_cell(node, &devices),
        or_none(free).into(),
        or_none(names).into(),
    ];
    if has_domains {
        let domains: Vec<_> = node
            .domains
            .iter()
            .map(|entry| entry.domain.clone())
            .collect();
        cells.push(domains.join("/").into());
    }
    if wide {
        let left = |name: &str| {
            let entry = node.resources.iter().find(|entry| entry.resource == name);
            entry
                .and_then(|entry| entry.free.as_ref())
                .map_or("-".to_owned(), |free| format_amount(name, free))
        };
        cells.extend([
            left("cpu").into(),
            left("memory").into(),
            or_none(node.taints.clone()).into(),
        ]);
    }
    cells.push(describe_holders(node, now).into());
    cells
}

/// Returns the state, as sinfo does.
/// It is Idle, Mixed or Full, or the reasons why the node accepts no pods.
fn state_cell(node: &NodeState, devices: &[(&str, DeviceCounts)]) -> Cell {
    if !node.schedulable {
        let reasons: Vec<_> = node
            .reasons
            .iter()
            .map(|reason| reason.reason.clone())
            .collect();
        return Cell::new(reasons.join(","), Tone::Bad);
    }
    let (mut all, mut free) = (0_i64, 0_i64);
    for (_, units) in devices {
        all = all.saturating_add(units.total);
        free = free.saturating_add(units.free);
    }
    match (all, free) {
        (0, _) if node.jobs.is_empty() => Cell::new("Idle", Tone::Good),
        (0, _) => Cell::new("Mixed", Tone::Plain),
        (_, 0) => Cell::new("Full", Tone::Plain),
        (all, free) if free >= all => Cell::new("Idle", Tone::Good),
        _ => Cell::new("Mixed", Tone::Plain),
    }
}

fn describe_holders(node: &NodeState, now: Timestamp) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !node.schedulable {
        parts.extend(node.reasons.iter().map(|reason| reason.message.clone()));
    }
    let jobs = node.jobs.iter().take(MAX_JOBS).map(|hold| {
        let state = hold.state.as_deref().filter(|state| *state != "Running");
        let state = state.map(|state| format!(" ({state})"));
        format!("{}{}", describe_hold(hold), state.unwrap_or_default())
    });
    parts.extend(jobs);
    match node.jobs.len().saturating_sub(MAX_JOBS) {
        0 => {}
        1 => parts.push("1 more job".to_owned()),
        more => parts.push(format!("{more} more jobs")),
    }
    match node.other_pods {
        0 => {}
        1 => parts.push("1 other pod".to_owned()),
        others => parts.push(format!("{others} other pods")),
    }
    parts.extend(node.reserved_for.iter().map(|hold| {
        let when =
            hold.expected_start
                .as_ref()
                .map(|time| match format_until(time.0, now).as_str() {
                    "now" => " from now".to_owned(),
                    span => format!(" in {span}"),
                });
        format!(
            "reserved for {}{}",
            describe_hold(hold),
            when.unwrap_or_default()
        )
    }));
    parts.extend(node.kept_for.iter().map(|hold| {
        let left = hold
            .until
            .as_ref()
            .map(|time| format!(" for {}", format_until(time.0, now)));
        format!(
            "kept for {}{}",
            describe_hold(hold),
            left.unwrap_or_default()
        )
    }));
    if !node.excluded_by.is_empty() {
        let shown = node.excluded_by.iter().take(MAX_JOBS);
        let names: Vec<_> = shown.map(ToString::to_string).collect();
        parts.push(format!("avoided by {}", names.join(" ")));
    }
    parts.join(", ")
}

fn describe_hold(hold: &NodeHold) -> String {
    let name = hold.job.to_string();
    let devices = hold.devices.iter().map(|device| device.amount.to_string());
    let devices: Vec<_> = devices.collect();
    match (devices.is_empty(), hold.pods) {
        (false, _) => format!("{name}:{}", devices.join("+")),
        (true, 1) => name,
        (true, pods) => format!("{name} ({pods} pods)"),
    }
}
