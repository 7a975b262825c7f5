//! Renders findings for people. Pure.

use super::{FindingRow, VerifyReport};
use crate::output::{Tone, paint, sanitize};

/// Renders one finding as a block of lines.
#[must_use]
pub(super) fn render_finding(row: &FindingRow) -> String {
    let object = match row.namespace.as_str() {
        "" => format!("{} {}", row.kind, row.name),
        namespace => format!("{} {namespace}/{}", row.kind, row.name),
    };
    let since = match row.revision {
        Some(revision) => format!("{}, revision {revision}", row.since),
        None => row.since.clone(),
    };
    format!(
        "{} {}\n  object   {object}\n  shows    {}\n  since    {since}\n  promise  {}\n  look at  {}\n\n",
        paint("broken:", Tone::Bad),
        row.rule,
        sanitize(&row.message),
        row.promise,
        row.look_at,
    )
}

/// Renders the result, and what the check could not see.
#[must_use]
pub(super) fn render_summary(report: &VerifyReport) -> String {
    let seen = format!(
        "{} jobs, {} pods of Trellis and {} nodes",
        report.jobs, report.pods, report.nodes
    );
    let time = match report.seconds {
        0 => "in one look".to_owned(),
        seconds => format!("for {seconds} s"),
    };
    let rules = report.rules.len();
    let mut text = match report.findings.len() {
        0 if report.is_led && report.unseen.is_empty() => {
            format!("All {rules} judged rules hold, seen {time}: {seen}.\n")
        }
        0 => format!("No judged rule is broken, seen {time}: {seen}.\n"),
        1 => format!("1 finding, seen {time}: {seen}.\n"),
        findings => format!("{findings} findings, seen {time}: {seen}.\n"),
    };
    if !report.is_led {
        text.push_str(
            "note: no replica of the operator holds the Lease trellis-operator, so nothing acts (--operator-namespace)\n",
        );
    }
    if report.seconds == 0 {
        text.push_str("note: one look shows only the faults that last; --for 10m judges all rules, change by change\n");
    } else {
        let (healthy, seconds) = (report.healthy_seconds, report.seconds);
        text.push_str(&format!(
            "healthy time: {healthy} of {seconds} s; a rule with a bound needs longer than its bound\n"
        ));
    }
    if !report.broken_kinds.is_empty() {
        let kinds = report.broken_kinds.join(", ");
        text.push_str(&format!("note: the watch of {kinds} is broken\n"));
    }
    if report.gaps > 0 {
        text.push_str(&format!(
            "note: watches broke {} times, so changes may be unseen\n",
            report.gaps
        ));
    }
    for unseen in &report.unseen {
        text.push_str(&format!(
            "note: {} have no object; the audit policy must record them at level RequestResponse\n",
            sanitize(unseen)
        ));
    }
    if let Some(first) = report.unread.first() {
        let count = report.unread.len();
        let first = sanitize(first);
        text.push_str(&format!(
            "note: {count} objects do not decode and are not judged, first {first}\n"
        ));
    }
    text
}
