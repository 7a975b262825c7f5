//! The devices of each node, drawn: who looks sees where it is full, where in pieces, and where
//! broken. Pure.

use trellis_api::visibility::NodeState;

use super::sums::{Units, devices};
use crate::output::{Tone, paint};

/// Cells of a node at most: more devices share one.
const WIDEST: i64 = 16;

pub(super) fn text(nodes: &[&NodeState]) -> String {
    let mut out = String::new();
    let longest = nodes.iter().map(|node| name(node).len()).max().unwrap_or(0);
    let mut before: Vec<&str> = Vec::new();
    for node in nodes {
        let here: Vec<&str> = node.domains.iter().map(|of| of.domain.as_str()).collect();
        let same = before.iter().zip(&here).take_while(|(a, b)| a == b).count();
        for (level, domain) in here.iter().enumerate().skip(same) {
            out.push_str(&" ".repeat(level.saturating_mul(2)));
            out.push_str(&paint(domain, Tone::Head));
            out.push('\n');
        }
        out.push_str(&" ".repeat(here.len().saturating_mul(2)));
        out.push_str(&format!("{:<longest$}  {}", name(node), cells(node)));
        let why: Vec<_> = node
            .reasons
            .iter()
            .map(|reason| reason.reason.as_str())
            .collect();
        if !why.is_empty() {
            out.push_str("  ");
            out.push_str(&paint(&why.join(","), Tone::Bad));
        }
        out.push('\n');
        before = here;
    }
    out.push('\n');
    out.push_str(&legend());
    out
}

fn name(node: &NodeState) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

const JOB: char = '█';
const OTHER: char = '▒';
const KEPT: char = '░';
const FREE: char = '·';
const BAD: char = 'x';

fn legend() -> String {
    format!(
        "{JOB} a job's  {OTHER} another pod's  {KEPT} kept  {FREE} free  {BAD} free, and the node takes no pods\n"
    )
}

/// A device a cell; of several kinds one after the other.
fn cells(node: &NodeState) -> String {
    let drawn: Vec<_> = devices(node)
        .map(|(_, units)| bar(units, node.schedulable))
        .collect();
    match drawn.is_empty() {
        true => paint("no devices", Tone::Dim),
        false => drawn.join(" "),
    }
}

fn bar(units: Units, schedulable: bool) -> String {
    let share = |count: i64| match units.all {
        all if all > WIDEST => count.saturating_mul(WIDEST).checked_div(all).unwrap_or(0),
        _ => count,
    };
    let (jobs, others, kept) = (share(units.jobs), share(units.others), share(units.kept));
    let taken = jobs.saturating_add(others).saturating_add(kept);
    let free = share(units.all).saturating_sub(taken);
    let (left, tone) = match schedulable {
        true => (FREE, Tone::Good),
        false => (BAD, Tone::Bad),
    };
    let of = |cell: char, count: i64| cell.to_string().repeat(usize::try_from(count).unwrap_or(0));
    [
        paint(&of(JOB, jobs), Tone::Waits),
        paint(&of(OTHER, others), Tone::Dim),
        paint(&of(KEPT, kept), Tone::Plain),
        paint(&of(left, free), tone),
    ]
    .concat()
}
