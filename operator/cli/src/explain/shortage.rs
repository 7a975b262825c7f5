//! Shows what a job lacks, in numbers, and what would help. Pure.

use trellis_api::visibility::{Explanation, QueueResource, QueueState, Shortage};
use trellis_reads::explain::{HelpKind, HelpSection};

use crate::output::{Table, Tone, format_amount, render_heading, wrap_text};
use crate::queue::format_nominal;

/// Renders the missing amounts, and the state of the queue.
pub(super) fn render_shortage(
    explanation: &Explanation,
    queue: Option<&QueueState>,
    width: usize,
) -> String {
    let mut out = String::new();
    if let Some(shortage) = &explanation.shortage {
        out.push_str(&render_heading("Shortage"));
        out.push_str(&render_numbers(shortage));
    }
    if let Some(queue) = queue.filter(|queue| !queue.resources.is_empty()) {
        out.push_str(&render_heading(&format!("Queue {}", explanation.queue)));
        out.push_str(&render_quota(queue));
        let share = queue.share.as_deref().unwrap_or("-");
        let hold = match queue.admitted {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        let line = format!("{hold} admitted, {} pending, share {share}", queue.pending);
        out.push_str(&wrap_text(&line, 2, width, Tone::Plain));
    }
    out
}

fn render_numbers(shortage: &Shortage) -> String {
    let mut table = Table::headless();
    let texts = [
        ("task group", &shortage.task_group),
        ("resource", &shortage.resource),
        ("flavor", &shortage.flavor),
        ("quota of queue", &shortage.queue),
        ("limit", &shortage.limit),
        ("level", &shortage.level),
        ("domain", &shortage.domain),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            table.push_row([name.into(), value.clone().into()]);
        }
    }
    let quantities = [
        ("needed", &shortage.needs),
        ("maximum", &shortage.most),
        ("used", &shortage.used),
        ("held by jobs", &shortage.held_by_jobs),
        ("held by other pods", &shortage.held_by_others),
        ("free", &shortage.free),
        ("missing", &shortage.missing),
    ];
    for (name, value) in quantities {
        if let Some(value) = value {
            let resource = shortage.resource.as_deref().unwrap_or_default();
            table.push_row([name.into(), format_amount(resource, value).into()]);
        }
    }
    let counts = [
        ("on nodes", shortage.nodes),
        ("pods", shortage.pods),
        ("room for", shortage.room),
    ];
    for (name, value) in counts {
        if let Some(value) = value {
            table.push_row([name.into(), value.to_string().into()]);
        }
    }
    if let Some(blocker) = &shortage.behind {
        table.push_row(["blocked by".into(), blocker.to_string().into()]);
    }
    if let Some(priority) = shortage.behind_priority {
        let blocker = format!("a job that you may not see, priority {priority}");
        table.push_row(["blocked by".into(), blocker.into()]);
    }
    table.render(2, None)
}

fn render_quota(queue: &QueueState) -> String {
    let mut table = Table::new([
        "FLAVOR",
        "RESOURCE",
        "QUOTA",
        "USED",
        "BORROWED",
        "MAY HAVE MORE",
    ]);
    // Pods without a limit are not worth a line.
    let is_listed = |row: &&QueueResource| row.resource != "pods" || row.available.is_some();
    for row in queue.resources.iter().filter(is_listed) {
        let available = row.available.as_ref();
        let available = available.map_or("*".to_owned(), |available| {
            format_amount(&row.resource, available)
        });
        table.push_row([
            row.flavor.clone().into(),
            row.resource.clone().into(),
            format_nominal(row).into(),
            format_amount(&row.resource, &row.used).into(),
            format_amount(&row.resource, &row.borrowed).into(),
            available.into(),
        ]);
    }
    table.render(2, None)
}

/// Renders a section of sentences: who makes room, or what would help.
pub(super) fn render_section(section: &HelpSection, width: usize) -> String {
    let tone = match section.kind {
        HelpKind::Preemption => Tone::Plain,
        HelpKind::Change | HelpKind::Request | HelpKind::Moves => Tone::Good,
    };
    let mut out = render_heading(section.heading);
    for line in &section.lines {
        out.push_str(&wrap_text(&line.to_string(), 2, width, tone));
    }
    if let Some(note) = section.note {
        out.push_str(&wrap_text(note, 2, width, Tone::Dim));
    }
    out
}
