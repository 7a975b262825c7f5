//! The whole story as people read it. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::visibility::{Explanation, GangName, JobState};

use super::subject::Subject;
use super::{Known, lacks, places};
use crate::events;
use crate::output::{Tone, age, of_phase, paint, until, wrapped};
use crate::status::remedy;

pub(super) fn text(known: &Known, now: Timestamp, wide: bool, width: usize) -> String {
    let own = match known.waits_with_gang() {
        true => Stands::in_phase(JobPhase::Queued),
        false => {
            let row = known.job_state.as_ref();
            stands(&known.subject, row.filter(|_| !known.is_gangs()))
        }
    };
    let mut out = head(known, &known.subject.name(), &own, now);
    out.push_str(&reason(why(known).as_ref(), width));
    for note in &known.notes {
        out.push_str(&wrapped(&format!("note: {note}"), 0, width, Tone::Dim));
    }
    if let Some(gang) = known.of.as_ref().filter(|_| known.is_gangs()) {
        let stands = known.job_state.as_ref().map(Stands::of);
        let stands = stands.unwrap_or_else(|| Stands::word(""));
        out.push('\n');
        out.push_str(&head(known, gang, &stands, now));
        out.push_str(&reason(gangs_why(known).as_ref(), width));
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

/// What it is.
fn head(known: &Known, name: &GangName, stands: &Stands, now: Timestamp) -> String {
    let namespace = known.subject.metadata().namespace.as_deref();
    let name = format!("{}/{name}", namespace.unwrap_or_default());
    let mut out = paint(&name, Tone::Head);
    if !stands.word.is_empty() {
        out.push_str(&format!("  {}", paint(&stands.word, stands.tone)));
    }
    if let Some(since) = stands.waits_since {
        out.push_str(&format!(" for {}", age(since, now)));
    }
    out.push('\n');
    out
}

/// The one reason.
fn reason(why: Option<&Why>, width: usize) -> String {
    let Some((reason, message)) = why else {
        return String::new();
    };
    let reason = reason.map(|reason| format!("{reason}: "));
    let text = format!("{}{message}", reason.unwrap_or_default());
    wrapped(&text, 2, width, Tone::Plain)
}

/// How it stands, in a word.
struct Stands {
    word: String,
    tone: Tone,
    waits_since: Option<Timestamp>,
}

impl Stands {
    /// Of what is told of in `trellis queue`.
    fn of(row: &JobState) -> Self {
        let since = row.position.map(|_| row.since.0);
        let phase = row.phase.unwrap_or(JobPhase::Queued);
        Self {
            waits_since: since,
            ..Self::in_phase(phase)
        }
    }

    fn in_phase(phase: JobPhase) -> Self {
        Self {
            word: phase.as_str().to_owned(),
            tone: of_phase(phase),
            waits_since: None,
        }
    }

    fn word(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            tone: Tone::Plain,
            waits_since: None,
        }
    }
}

/// `row`: its own.
fn stands(subject: &Subject, row: Option<&JobState>) -> Stands {
    if let Some(row) = row {
        return Stands::of(row);
    }
    match subject {
        Subject::Job(job) => {
            let status = job.status.as_ref();
            let Some(phase) = status.and_then(|status| status.phase) else {
                return Stands {
                    tone: Tone::Waits,
                    ..Stands::word("not looked at yet")
                };
            };
            let waits = matches!(
                phase,
                JobPhase::Queued | JobPhase::Waiting | JobPhase::Restarting
            );
            let since = status.and_then(TrainingJobStatus::waits_since);
            Stands {
                waits_since: since.filter(|_| waits),
                ..Stands::in_phase(phase)
            }
        }
        Subject::PodGroup(group) => {
            let status = group.status.as_ref();
            let phase = status.and_then(|status| status.phase).unwrap_or_default();
            match phase {
                // The engine knows nothing of what lacks members, or names what there is not.
                PodGroupPhase::Pending if subject.written().is_some() => {
                    Stands::in_phase(JobPhase::Waiting)
                }
                PodGroupPhase::Pending | PodGroupPhase::Finished => Stands::word("not placed"),
                PodGroupPhase::Nominated => Stands::word("waits for others to leave its place"),
                PodGroupPhase::Committing | PodGroupPhase::Placed => {
                    Stands::word("holds its place")
                }
                PodGroupPhase::Unwinding => Stands::word("gives its place back"),
            }
        }
        Subject::Pod(_) if subject.written().is_some() => Stands::in_phase(JobPhase::Waiting),
        Subject::Pod(pod) => {
            let status = pod.status.as_ref();
            let phase = status.and_then(|status| status.phase.as_deref());
            Stands::word(phase.unwrap_or("Pending"))
        }
    }
}

/// A reason, and that in words.
type Why = (Option<Reason>, String);

/// Its own reason. What the engine says now is newer than what is written.
fn why(known: &Known) -> Option<Why> {
    if known.is_gangs() {
        // Of one that waits with its gang an older word of the same is written.
        return known.subject.written().filter(|_| !known.waits_with_gang());
    }
    if let Some(told) = &known.explanation {
        return Some((told.reason, told.message.clone()));
    }
    // Of what holds its place nothing stands there any more that is true of it.
    let row = known.job_state.as_ref();
    let holds = row.is_some_and(|row| row.phase != Some(JobPhase::Queued));
    known.subject.written().filter(|_| !holds)
}

/// That of the gang which a pod is in.
fn gangs_why(known: &Known) -> Option<Why> {
    let told = known.explanation.as_ref();
    told.map(|told| (told.reason, told.message.clone()))
}

/// Its turn, and when it starts.
fn turn(explanation: &Explanation, now: Timestamp) -> String {
    if explanation.reason.is_some_and(Reason::is_never) {
        let queue = &explanation.queue;
        let never = format!(
            "  it can never start as it is: the job, queue {queue} or the nodes must change\n"
        );
        return paint(&never, Tone::Bad);
    }
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
    let why = match known.waits_with_gang() {
        true => gangs_why(known),
        false => why(known),
    };
    let fix = remedy(
        known.subject.job_status(),
        why.and_then(|(reason, _)| reason),
    );
    match fix.is_empty() {
        true => String::new(),
        false => format!(
            "{}{}",
            section("What to do"),
            wrapped(&fix, 2, width, Tone::Plain)
        ),
    }
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
