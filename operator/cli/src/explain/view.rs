//! The whole story as people read it. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::visibility::Explanation;

use super::subject::Subject;
use super::{Known, lacks, places};
use crate::events;
use crate::output::{Tone, age, of_phase, paint, until, wrapped};
use crate::status::remedy;

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
    let namespace = known.subject.metadata().namespace.as_deref();
    let name = format!("{}/{}", namespace.unwrap_or_default(), known.subject.name());
    let stands = stands(known);
    let mut out = format!(
        "{}  {}",
        paint(&name, Tone::Head),
        paint(&stands.word, stands.tone)
    );
    if let Some(since) = stands.waits_since {
        out.push_str(&format!(" for {}", age(since, now)));
    }
    out.push('\n');
    if let Some((reason, message)) = why(known) {
        let reason = reason.map(|reason| format!("{reason}: "));
        let text = format!("{}{message}", reason.unwrap_or_default());
        out.push_str(&wrapped(&text, 2, width, Tone::Plain));
    }
    out
}

/// How it stands, in a word.
struct Stands {
    word: String,
    tone: Tone,
    waits_since: Option<Timestamp>,
}

fn stands(known: &Known) -> Stands {
    let (phase, since) = match (&known.subject, &known.queued) {
        (Subject::Job(job), _) => {
            let status = job.status.as_ref();
            let since = status.and_then(TrainingJobStatus::waits_since);
            (status.and_then(|status| status.phase), since)
        }
        (_, Some(queued)) => (queued.phase, Some(queued.since.0)),
        (Subject::Pod(pod), None) if known.subject.written().is_none() => {
            let status = pod.status.as_ref();
            let word = status.and_then(|status| status.phase.clone());
            return Stands {
                word: word.unwrap_or_default(),
                tone: Tone::Plain,
                waits_since: None,
            };
        }
        // The engine does not know what lacks members, or names what there is not.
        (_, None) => {
            let waits = known.subject.written().map(|_| JobPhase::Waiting);
            (waits, None)
        }
    };
    let waits = matches!(
        phase,
        Some(JobPhase::Queued | JobPhase::Waiting | JobPhase::Restarting)
    );
    let none = match known.subject {
        Subject::Job(_) => "not looked at yet",
        _ => "neither waits for a place nor holds one",
    };
    Stands {
        word: phase.map_or(none, JobPhase::as_str).to_owned(),
        tone: phase.map_or(Tone::Waits, of_phase),
        waits_since: since.filter(|_| waits),
    }
}

/// The one reason, and that in words. What the engine says now is newer than what is written.
fn why(known: &Known) -> Option<(Option<Reason>, String)> {
    if let Some(told) = &known.explanation {
        return Some((told.reason, told.message.clone()));
    }
    // Of what holds its place nothing stands there any more that is true of it.
    let holds = known
        .queued
        .as_ref()
        .is_some_and(|row| row.position.is_none());
    known.subject.written().filter(|_| !holds)
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
    let status = known.subject.job_status();
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
    let reason = why(known).and_then(|(reason, _)| reason);
    let fix = remedy(known.subject.job_status(), reason);
    if fix.is_empty() {
        return String::new();
    }
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
