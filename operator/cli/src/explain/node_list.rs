//! Lists why nodes fit a job or do not fit it. Pure.

use trellis_api::visibility::{Candidate, ExcludedNodes, Explanation, TaskGroupNodes};
use trellis_reads::explain::join_amounts;

use crate::output::{Table, Tone, render_heading, wrap_text};

/// Greatest number of node names without the wide format.
const MAX_NAMES: usize = 3;

pub(super) fn render_nodes(explanation: &Explanation, wide: bool, width: usize) -> String {
    let mut out = String::new();
    for group in &explanation.task_groups {
        out.push_str(&render_heading(&format!(
            "Nodes for task group {}",
            group.name
        )));
        out.push_str(&render_group(group, wide, width));
    }
    if !explanation.reserved_nodes.is_empty() {
        let nodes = explanation.reserved_nodes.join(", ");
        out.push_str(&wrap_text(
            &format!("reserved for it: {nodes}"),
            2,
            width,
            Tone::Good,
        ));
    }
    out
}

fn render_group(group: &TaskGroupNodes, wide: bool, width: usize) -> String {
    let requests = join_amounts(&group.requests);
    let flavors = match group.flavors.is_empty() {
        true => String::new(),
        false => format!(", flavors {}", group.flavors.join(", ")),
    };
    let head = format!(
        "{} of {requests} each{flavors}: {} of {} nodes match, with room for {} now",
        format_pod_count(group.pods),
        group.matching,
        group.nodes,
        format_pod_count(group.room)
    );
    let mut out = wrap_text(&head, 2, width, Tone::Plain);
    out.push_str(&render_table(&group.excluded, &group.candidates, wide));
    out
}

fn render_table(excluded: &[ExcludedNodes], candidates: &[Candidate], wide: bool) -> String {
    let mut table = Table::headless();
    for nodes in excluded {
        let constraint = match &nodes.detail {
            Some(detail) => format!("{} {detail}", nodes.constraint),
            None => nodes.constraint.clone(),
        };
        let count = usize::try_from(nodes.count).unwrap_or(0);
        table.push_row([
            "excluded".into(),
            nodes.count.to_string().into(),
            constraint.into(),
            join_names(nodes.nodes.iter().map(String::as_str), count, wide).into(),
        ]);
    }
    let limit = if wide { candidates.len() } else { MAX_NAMES };
    for candidate in candidates.iter().take(limit) {
        table.push_row([
            "best".into(),
            format!("room for {}", candidate.room).into(),
            candidate.node.clone().into(),
            format!("free: {}", join_amounts(&candidate.free)).into(),
        ]);
    }
    table.render(2, None)
}

/// Joins the first names. `total` is the number of all names.
fn join_names<'a>(names: impl Iterator<Item = &'a str>, total: usize, wide: bool) -> String {
    let limit = if wide { usize::MAX } else { MAX_NAMES };
    let names: Vec<_> = names.take(limit).collect();
    match total.saturating_sub(names.len()) {
        0 => names.join(", "),
        // The user may not see these names.
        _ if names.is_empty() => String::new(),
        _ => format!("{}, ...", names.join(", ")),
    }
}

fn format_pod_count(count: i64) -> String {
    match count {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}
