//! Renders the complete explanation for people. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::LevelPlacement;
use trellis_api::visibility::{Explanation, GangName};
use trellis_reads::explain::{
    DisplayState, ExplainFacts, HelpKind, QueueTurn, ReasonText, help_sections,
};

use super::{node_list, shortage};
use crate::events;
use crate::output::{Table, Tone, format_age, paint, phase_tone, render_heading, wrap_text};

pub(super) fn render(known: &ExplainFacts, now: Timestamp, wide: bool, width: usize) -> String {
    let mut out = render_head(known, &known.subject.gang_name(), &known.own_state(), now);
    out.push_str(&render_reason(known.current_reason().as_ref(), width));
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
        out.push_str(&render_reason(known.gang_reason().as_ref(), width));
    }
    if let Some(explanation) = &known.explanation {
        out.push_str(&render_turn(explanation, now));
        out.push_str(&shortage::render_shortage(
            explanation,
            known.queue.as_ref(),
            width,
        ));
        let sections = help_sections(explanation);
        let (preemption, help): (Vec<_>, Vec<_>) = sections
            .iter()
            .partition(|section| section.kind == HelpKind::Preemption);
        for section in preemption {
            out.push_str(&shortage::render_section(section, width));
        }
        out.push_str(&node_list::render_nodes(explanation, wide, width));
        for section in help {
            out.push_str(&shortage::render_section(section, width));
        }
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
        out.push_str(&format!("  {}", paint(&state.word, state_tone(state))));
    }
    if let Some(since) = state.pending_since {
        out.push_str(&format!(" for {}", format_age(since, now)));
    }
    out.push('\n');
    out
}

/// The tone of a state. A job that the operator has not processed yet has no phase.
fn state_tone(state: &DisplayState) -> Tone {
    match state.phase {
        Some(phase) => phase_tone(phase),
        None if state.word == "not processed yet" => Tone::Waiting,
        None => Tone::Plain,
    }
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

/// Renders the position in the queue, and the expected start.
fn render_turn(explanation: &Explanation, now: Timestamp) -> String {
    match QueueTurn::of(explanation, now) {
        QueueTurn::Never(never) => paint(&format!("  {never}\n"), Tone::Bad),
        QueueTurn::Waits { place, start } => paint(&format!("  {place}\n  {start}\n"), Tone::Plain),
    }
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
    let fix = known.next_steps();
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
