//! The whole story as people read it. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::visibility::Explanation;

use super::{Known, lacks, places};
use crate::events;
use crate::output::{Tone, age, of_phase, paint, until, wrapped};

pub(super) fn text(known: &Known, now: Timestamp, wide: bool, width: usize) -> String {
    let mut out = head(known, now, width);
    for note in &known.notes {
        out.push_str(&wrapped(&format!("note: {note}"), 0, width, Tone::Dim));
    }
    if let Some(explanation) = &known.explanation {
        out.push_str(&turn(explanation, now));
        out.push_str(&lacks::text(explanation, known.queue.as_ref(), width));
        out.push_str(&places::text(explanation, wide, width));
        out.push_str(&lacks::helps(explanation, width));
    }
    out.push_str(&policies(known, width));
    out.push_str(&timeline(known, now, wide, width));
    out.push_str(&advice(known, width));
    out
}

/// What it is, and the one reason.
fn head(known: &Known, now: Timestamp, width: usize) -> String {
    let meta = &known.job.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let status = known.job.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    let word = phase.map_or("not looked at yet", JobPhase::as_str);
    let tone = phase.map_or(Tone::Waits, of_phase);
    let mut out = format!(
        "{}  {}",
        paint(&format!("{namespace}/{name}"), Tone::Head),
        paint(word, tone)
    );
    let since = status.and_then(TrainingJobStatus::waits_since);
    let waits = matches!(
        phase,
        Some(JobPhase::Queued | JobPhase::Waiting | JobPhase::Restarting)
    );
    if let Some(since) = since.filter(|_| waits) {
        out.push_str(&format!(" for {}", age(since, now)));
    }
    out.push('\n');
    // What the engine says now is newer than what stands in status.
    let told = known
        .explanation
        .as_ref()
        .map(|e| (e.reason, e.message.as_str()));
    let written = status.map(|s| (s.reason, s.message.as_deref().unwrap_or_default()));
    if let Some((reason, message)) = told.or(written) {
        let reason = reason.map(|reason| format!("{reason}: "));
        let text = format!("{}{message}", reason.unwrap_or_default());
        out.push_str(&wrapped(&text, 2, width, Tone::Plain));
    }
    out
}

/// Its turn, and when it starts.
fn turn(explanation: &Explanation, now: Timestamp) -> String {
    let place = match explanation.position {
        Some(position) => format!("number {position} of queue {}", explanation.queue),
        None => format!(
            "in queue {}, waits for others to leave its place",
            explanation.queue
        ),
    };
    let start = match &explanation.expected_start {
        Some(time) => match until(time.0, now).as_str() {
            "now" => "expected to start now".to_owned(),
            span => format!("expected to start in {span} ({})", time.0),
        },
        None => "no start is foreseen: what it waits for has no end that is known".to_owned(),
    };
    let priority = explanation.priority;
    let turn = format!("  {place}, priority {priority}\n  {start}\n");
    paint(&turn, Tone::Plain)
}

/// Who decided that it may run, or may not.
fn policies(known: &Known, width: usize) -> String {
    let status = known.job.status.as_ref();
    let Some(policy) = status.and_then(|status| status.policy.as_ref()) else {
        return String::new();
    };
    let decision = policy.decision.map(|decision| decision.as_str().to_owned());
    let by = match policy.policies.is_empty() {
        true => String::new(),
        false => format!(" by {}", policy.policies.join(", ")),
    };
    let mut out = section("Policies");
    let decided = format!("{}{by}", decision.unwrap_or_else(|| "Undecided".to_owned()));
    out.push_str(&wrapped(&decided, 2, width, Tone::Plain));
    for permit in &policy.missing_permits {
        out.push_str(&wrapped("missing:", 2, width, Tone::Bad));
        out.push_str(&indented(permit, 4));
    }
    for (what, texts) in [("error", &policy.errors), ("warning", &policy.warnings)] {
        for text in texts {
            out.push_str(&wrapped(&format!("{what}: {text}"), 2, width, Tone::Bad));
        }
    }
    out
}

/// What happened to it until now.
fn timeline(known: &Known, now: Timestamp, wide: bool, width: usize) -> String {
    if known.events.is_empty() {
        return String::new();
    }
    let room = (!wide).then_some(width);
    let table = events::table(&known.events, now).text(2, room);
    format!("{}{table}", section("What happened"))
}

fn advice(known: &Known, width: usize) -> String {
    let told = known.explanation.as_ref().and_then(|e| e.reason);
    let written = known.job.status.as_ref().and_then(|status| status.reason);
    let Some(fix) = told
        .or(written)
        .map(trellis_api::Reason::remedy)
        .filter(|fix| !fix.is_empty())
    else {
        return String::new();
    };
    format!(
        "{}{}",
        section("What to do"),
        wrapped(fix, 2, width, Tone::Plain)
    )
}

/// The head of a part.
pub(super) fn section(name: &str) -> String {
    format!("\n{}\n", paint(name, Tone::Head))
}

fn indented(text: &str, by: usize) -> String {
    let lines = text
        .lines()
        .map(|line| format!("{}{}\n", " ".repeat(by), paint(line, Tone::Plain)));
    lines.collect()
}
