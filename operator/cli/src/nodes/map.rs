//! Draws the devices of each node.
//! The map shows full, fragmented and bad nodes. Pure.

use std::cmp::Reverse;

use trellis_api::visibility::NodeState;

use super::device_counts::{DeviceCounts, devices};
use crate::output::{Tone, paint};

/// Greatest number of cells of a node.
/// With more devices, several share one cell.
const MAX_CELLS: i64 = 16;

pub(super) fn render_map(nodes: &[&NodeState]) -> String {
    let mut out = String::new();
    let longest = nodes
        .iter()
        .map(|node| node_name(node).len())
        .max()
        .unwrap_or(0);
    let mut before: Vec<&str> = Vec::new();
    for node in nodes {
        let domains: Vec<&str> = node
            .domains
            .iter()
            .map(|entry| entry.domain.as_str())
            .collect();
        let shared = before
            .iter()
            .zip(&domains)
            .take_while(|(a, b)| a == b)
            .count();
        for (level, domain) in domains.iter().enumerate().skip(shared) {
            out.push_str(&" ".repeat(level.saturating_mul(2)));
            out.push_str(&paint(domain, Tone::Head));
            out.push('\n');
        }
        out.push_str(&" ".repeat(domains.len().saturating_mul(2)));
        out.push_str(&format!(
            "{:<longest$}  {}",
            paint(node_name(node), Tone::Plain),
            render_cells(node)
        ));
        let reasons: Vec<_> = node
            .reasons
            .iter()
            .map(|reason| reason.reason.as_str())
            .collect();
        if !reasons.is_empty() {
            out.push_str("  ");
            out.push_str(&paint(&reasons.join(","), Tone::Bad));
        }
        out.push('\n');
        before = domains;
    }
    out.push('\n');
    out.push_str(&render_legend());
    out
}

fn node_name(node: &NodeState) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

const JOB: char = '█';
const OTHER: char = '▒';
const RESERVED: char = '░';
const FREE: char = '·';
const BAD: char = 'x';

fn render_legend() -> String {
    format!(
        "{JOB} a job's  {OTHER} another pod's  {RESERVED} kept  {FREE} free  {BAD} free, on a node that takes no pods\n"
    )
}

/// Draws one cell per device. Several kinds of device follow one another.
fn render_cells(node: &NodeState) -> String {
    let drawn: Vec<_> = devices(node)
        .map(|(_, units)| render_bar(units, node.schedulable))
        .collect();
    match drawn.is_empty() {
        true => paint("no devices", Tone::Dim),
        false => drawn.join(" "),
    }
}

/// Scales the counts to at most `MAX_CELLS` cells.
/// If the counts exceed that, each gets its proportional share. The remaining cells go to the
/// largest remainders (Hamilton).
fn scale_counts(counts: [i64; 4]) -> [i64; 4] {
    let all = counts.into_iter().fold(0, i64::saturating_add);
    if all <= MAX_CELLS {
        return counts;
    }
    let part = |count: i64| count.saturating_mul(MAX_CELLS);
    let mut shares = counts.map(|count| part(count).checked_div(all).unwrap_or(0));
    let assigned = shares.into_iter().fold(0, i64::saturating_add);
    let remaining = usize::try_from(MAX_CELLS.saturating_sub(assigned)).unwrap_or(0);
    let mut by_remainder: Vec<_> = counts.into_iter().zip(&mut shares).collect();
    // The sort is stable: with equal remainders, the earlier count wins.
    by_remainder.sort_by_key(|(count, _)| Reverse(part(*count).checked_rem(all)));
    for (_, share) in by_remainder.into_iter().take(remaining) {
        *share = share.saturating_add(1);
    }
    shares
}

fn render_bar(units: DeviceCounts, schedulable: bool) -> String {
    let used = units.jobs.saturating_add(units.external);
    let used = used.saturating_add(units.reserved);
    let free = units.total.saturating_sub(used).max(0);
    let [jobs, external, reserved, free] =
        scale_counts([units.jobs, units.external, units.reserved, free]);
    let (free_cell, tone) = match schedulable {
        true => (FREE, Tone::Good),
        false => (BAD, Tone::Bad),
    };
    let repeat =
        |cell: char, count: i64| cell.to_string().repeat(usize::try_from(count).unwrap_or(0));
    [
        paint(&repeat(JOB, jobs), Tone::Waiting),
        paint(&repeat(OTHER, external), Tone::Dim),
        paint(&repeat(RESERVED, reserved), Tone::Plain),
        paint(&repeat(free_cell, free), tone),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_share_the_cells_in_proportion() {
        assert_eq!(scale_counts([3, 2, 1, 2]), [3, 2, 1, 2]);
        // All devices are taken, so no cell is free.
        assert_eq!(scale_counts([31, 1, 0, 0]), [16, 0, 0, 0]);
        assert_eq!(scale_counts([11, 11, 10, 0]), [6, 5, 5, 0]);
        assert_eq!(scale_counts([0, 0, 0, 64]), [0, 0, 0, 16]);
        assert_eq!(scale_counts([30, 0, 0, 2]), [15, 0, 0, 1]);
    }
}
