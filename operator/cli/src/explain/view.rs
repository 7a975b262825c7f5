//! Renders the complete explanation for people. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, LevelPlacement, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::visibility::{Explanation, GangName, JobState};

use super::explained_object::ExplainedObject;
use super::{ExplainFacts, node_list, shortage};
use crate::events;
use crate::output::{
    Table, Tone, format_age, format_until, paint, phase_tone, render_heading, wrap_text,
};
use crate::status::remedy;

pub(super) fn render(known: &ExplainFacts, now: Timestamp, wide: bool, width: usize) -> String {
    let own = match known.waits_with_gang() {
        true => DisplayState::from_phase(JobPhase::Queued),
        false => {
            let row = known.job_state.as_ref();
            display_state(
                &known.subject,
                row.filter(|_| !known.is_explained_by_gang()),
            )
        }
    };
    let mut out = render_head(known, &known.subject.gang_name(), &own, now);
    out.push_str(&render_reason(current_reason(known).as_ref(), width));
    for note in &known.notes {
        out.push_str(&wrap_text(&format!("note: {note}"), 0, width, Tone::Dim));
    }
    if let Some(gang) = known
        .gang_name
        .as_ref()
        .filter(|_| known.is_explained_by_gang())
    {
        let state = known.job_state.as_ref().map(DisplayState::from_row);
        let state = state.unwrap_or_else(|| DisplayState::from_word(""));
        out.push('\n');
        out.push_str(&render_head(known, gang, &state, now));
        out.push_str(&render_reason(gang_reason(known).as_ref(), width));
    }
    if let Some(explanation) = &known.explanation {
        out.push_str(&render_turn(explanation, now));
        out.push_str(&shortage::render_shortage(
            explanation,
            known.queue.as_ref(),
            width,
        ));
        out.push_str(&node_list::render_nodes(explanation, wide, width));
        out.push_str(&shortage::render_smallest_change(explanation, width));
        out.push_str(&shortage::render_request_changes(explanation, width));
        out.push_str(&shortage::render_moves(explanation, width));
    }
    out.push_str(&render_placement(known, width));
    out.push_str(&render_policies(known, width));
    out.push_str(&render_timeline(known, now, wide, width));
    out.push_str(&render_advice(known, width));
    out
}

/// Renders the name and the state.
fn render_head(
    known: &ExplainFacts,
    name: &GangName,
    state: &DisplayState,
    now: Timestamp,
) -> String {
    let namespace = known.subject.metadata().namespace.as_deref();
    let name = format!("{}/{name}", namespace.unwrap_or_default());
    let mut out = paint(&name, Tone::Head);
    if !state.word.is_empty() {
        out.push_str(&format!("  {}", paint(&state.word, state.tone)));
    }
    if let Some(since) = state.pending_since {
        out.push_str(&format!(" for {}", format_age(since, now)));
    }
    out.push('\n');
    out
}

/// Renders the one reason.
fn render_reason(reason_text: Option<&ReasonText>, width: usize) -> String {
    let Some((reason, message)) = reason_text else {
        return String::new();
    };
    let reason = reason.map(|reason| format!("{reason}: "));
    let text = format!("{}{message}", reason.unwrap_or_default());
    wrap_text(&text, 2, width, Tone::Plain)
}

/// The state of the object, in one word.
struct DisplayState {
    word: String,
    tone: Tone,
    pending_since: Option<Timestamp>,
}

impl DisplayState {
    /// Takes the state from the row of `trellis queue`.
    fn from_row(row: &JobState) -> Self {
        let since = row.position.map(|_| row.since.0);
        let phase = row.phase.unwrap_or(JobPhase::Queued);
        Self {
            pending_since: since,
            ..Self::from_phase(phase)
        }
    }

    fn from_phase(phase: JobPhase) -> Self {
        Self {
            word: phase.as_str().to_owned(),
            tone: phase_tone(phase),
            pending_since: None,
        }
    }

    fn from_word(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            tone: Tone::Plain,
            pending_since: None,
        }
    }
}

/// Returns the state of the object. `row` must be the row of this object.
fn display_state(subject: &ExplainedObject, row: Option<&JobState>) -> DisplayState {
    if let Some(row) = row {
        return DisplayState::from_row(row);
    }
    match subject {
        ExplainedObject::Job(job) => {
            let status = job.status.as_ref();
            let Some(phase) = status.and_then(|status| status.phase) else {
                return DisplayState {
                    tone: Tone::Waiting,
                    ..DisplayState::from_word("not processed yet")
                };
            };
            let is_waiting = matches!(
                phase,
                JobPhase::Queued | JobPhase::Waiting | JobPhase::Restarting
            );
            let since = status.and_then(TrainingJobStatus::pending_since);
            DisplayState {
                pending_since: since.filter(|_| is_waiting),
                ..DisplayState::from_phase(phase)
            }
        }
        ExplainedObject::PodGroup(group) => {
            let status = group.status.as_ref();
            let phase = status.and_then(|status| status.phase).unwrap_or_default();
            match phase {
                // The engine does not know a gang that lacks members or refers to a missing object.
                PodGroupPhase::Pending if subject.stored_reason().is_some() => {
                    DisplayState::from_phase(JobPhase::Waiting)
                }
                PodGroupPhase::Pending | PodGroupPhase::Finished => {
                    DisplayState::from_word("not placed")
                }
                PodGroupPhase::Provisioning => DisplayState::from_word("waits for new nodes"),
                PodGroupPhase::Nominated => {
                    DisplayState::from_word("waits for preempted jobs to stop")
                }
                PodGroupPhase::Committing | PodGroupPhase::Placed => {
                    DisplayState::from_word("placed")
                }
                PodGroupPhase::Unwinding => DisplayState::from_word("releases its nodes"),
            }
        }
        ExplainedObject::Pod(_) if subject.stored_reason().is_some() => {
            DisplayState::from_phase(JobPhase::Waiting)
        }
        ExplainedObject::Pod(pod) => {
            let status = pod.status.as_ref();
            let phase = status.and_then(|status| status.phase.as_deref());
            DisplayState::from_word(phase.unwrap_or("Pending"))
        }
    }
}

/// A reason and its message.
type ReasonText = (Option<Reason>, String);

/// Returns the reason of this object.
/// The engine's current reason wins over the stored one.
fn current_reason(known: &ExplainFacts) -> Option<ReasonText> {
    if known.is_explained_by_gang() {
        // If the pod waits with its gang, its stored reason is an older version of the gang's
        // reason.
        return known
            .subject
            .stored_reason()
            .filter(|_| !known.waits_with_gang());
    }
    if let Some(explanation) = &known.explanation {
        return Some((explanation.reason, explanation.message.clone()));
    }
    // The stored reason of a gang that holds its nodes is out of date.
    let row = known.job_state.as_ref();
    let holds = row.is_some_and(|row| row.phase != Some(JobPhase::Queued));
    known.subject.stored_reason().filter(|_| !holds)
}

/// Returns the reason of the gang that the pod belongs to.
fn gang_reason(known: &ExplainFacts) -> Option<ReasonText> {
    let explanation = known.explanation.as_ref();
    explanation.map(|explanation| (explanation.reason, explanation.message.clone()))
}

/// Renders the position in the queue, and the expected start.
fn render_turn(explanation: &Explanation, now: Timestamp) -> String {
    if explanation.reason.is_some_and(Reason::requires_change) {
        let queue = &explanation.queue;
        let impossible = format!(
            "  it can never start as it is: the job, queue {queue} or the nodes must change\n"
        );
        return paint(&impossible, Tone::Bad);
    }
    let place = match explanation.position {
        Some(position) => format!("number {position} of queue {}", explanation.queue),
        None => format!(
            "in queue {}, waits for preempted jobs to stop",
            explanation.queue
        ),
    };
    let start = match &explanation.expected_start {
        Some(time) => match format_until(time.0, now).as_str() {
            "now" => "expected to start now".to_owned(),
            span => format!("expected to start in {span} ({})", time.0),
        },
        None if explanation.reason == Some(Reason::Provisioning) => {
            "no expected start: the autoscaler does not say when the nodes are ready".to_owned()
        }
        None => "no expected start: the gangs that it waits for have no known end".to_owned(),
    };
    let priority = explanation.priority;
    let turn = format!("  {place}, priority {priority}\n  {start}\n");
    paint(&turn, Tone::Plain)
}

/// Renders how the ranks of a placed job follow the topology.
fn render_placement(known: &ExplainFacts, width: usize) -> String {
    let status = known.subject.job_status();
    let levels = status.map_or(&[][..], |status| &status.placement);
    if levels.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["LEVEL", "DOMAINS", "CROSSINGS", "LEAST"]);
    for level in levels {
        table.push_row([
            level.level.as_str().into(),
            level.domains.to_string().into(),
            level.crossings.to_string().into(),
            level.least_crossings.to_string().into(),
        ]);
    }
    let excess = describe_excess_crossings(levels);
    let excess = excess.map(|text| wrap_text(&text, 2, width, Tone::Waiting));
    format!(
        "{}{}{}",
        render_heading("Placement"),
        table.render(2, None),
        excess.unwrap_or_default()
    )
}

/// Describes the levels at which another order of the ranks would cross fewer domains. None: there
/// are none.
fn describe_excess_crossings(levels: &[LevelPlacement]) -> Option<String> {
    let excess = levels.iter().filter(|l| l.crossings > l.least_crossings);
    let excess = excess.map(|l| {
        let (level, crossings, least) = (&l.level, l.crossings, l.least_crossings);
        format!("{level:?} {crossings} times (at least {least})")
    });
    let excess: Vec<String> = excess.collect();
    (!excess.is_empty()).then(|| {
        format!(
            "a ring over the ranks crosses {}: pods that move or join later keep their ranks until the job is suspended and resumed",
            excess.join(" and ")
        )
    })
}

/// Renders the decision of the policies.
fn render_policies(known: &ExplainFacts, width: usize) -> String {
    let status = known.subject.job_status();
    let Some(policy) = status.and_then(|status| status.policy.as_ref()) else {
        return String::new();
    };
    let decision = policy.decision.map(|decision| decision.as_str().to_owned());
    let by = match policy.policies.is_empty() {
        true => String::new(),
        false => format!(" by {}", policy.policies.join(", ")),
    };
    let mut out = render_heading("Policies");
    let decided = format!("{}{by}", decision.unwrap_or_else(|| "Undecided".to_owned()));
    out.push_str(&wrap_text(&decided, 2, width, Tone::Plain));
    for permit in &policy.missing_permits {
        out.push_str(&wrap_text("missing:", 2, width, Tone::Bad));
        out.push_str(&indent_lines(permit, 4));
    }
    for (what, texts) in [("error", &policy.errors), ("warning", &policy.warnings)] {
        for text in texts {
            out.push_str(&wrap_text(&format!("{what}: {text}"), 2, width, Tone::Bad));
        }
    }
    out
}

/// Renders the past events.
fn render_timeline(known: &ExplainFacts, now: Timestamp, wide: bool, width: usize) -> String {
    if known.events.is_empty() {
        return String::new();
    }
    let room = (!wide).then_some(width);
    let table = events::build_table(&known.events, now).render(2, room);
    format!("{}{table}", render_heading("Events"))
}

fn render_advice(known: &ExplainFacts, width: usize) -> String {
    let reason_text = match known.waits_with_gang() {
        true => gang_reason(known),
        false => current_reason(known),
    };
    let fix = remedy(
        known.subject.job_status(),
        reason_text.and_then(|(reason, _)| reason),
    );
    match fix.is_empty() {
        true => String::new(),
        false => format!(
            "{}{}",
            render_heading("Next steps"),
            wrap_text(&fix, 2, width, Tone::Plain)
        ),
    }
}

fn indent_lines(text: &str, by: usize) -> String {
    let lines = text
        .lines()
        .map(|line| format!("{}{}\n", " ".repeat(by), paint(line, Tone::Plain)));
    lines.collect()
}
