//! Sentences about changes that would help a job that waits, and jobs that make room for it. Pure.

use serde::Serialize;
use trellis_api::visibility::{
    Amount, Explanation, FreedOn, HeldBy, MovableJob, OtherJobs, Preempted, Protected, RaisedLimit,
    RaisedQuota, SmallestChange,
};

use super::Sentence;
use crate::text::format_amount;

/// Sentences about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelpSection {
    /// The subject.
    pub kind: HelpKind,
    /// The heading.
    pub heading: &'static str,
    /// The sentences, at least one.
    pub lines: Vec<Sentence>,
    /// Advice for the use of the sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// The subject of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HelpKind {
    /// Jobs that make room, and jobs that cannot do so yet.
    Preemption,
    /// The smallest change of the cluster, of a quota or of a limit.
    Change,
    /// Changes of the job's own request.
    Request,
    /// Running jobs that would have to move.
    Moves,
}

/// Returns the sections that are not empty, in the order of [`HelpKind`].
#[must_use]
pub fn help_sections(explanation: &Explanation) -> Vec<HelpSection> {
    let sections = [
        HelpSection {
            kind: HelpKind::Preemption,
            heading: "Preemption",
            lines: describe_preemption(explanation),
            note: None,
        },
        HelpSection {
            kind: HelpKind::Change,
            heading: "The smallest change that would help",
            lines: describe_smallest_change(explanation.smallest_change.as_ref()),
            note: None,
        },
        HelpSection {
            kind: HelpKind::Request,
            heading: "The job would start now with any one of these changes",
            lines: explanation
                .request_changes
                .iter()
                .map(|change| Sentence::plain(format!("{}: {}", change.field, change.value)))
                .collect(),
            note: Some("A job that was placed before must be suspended for the change"),
        },
        HelpSection {
            kind: HelpKind::Moves,
            heading: "It would start if these jobs moved",
            lines: explanation.moves.iter().map(describe_move).collect(),
            note: Some(
                "Trellis moves no job: suspend all of these jobs, and resume them after this job has started",
            ),
        },
    ];
    let sections = sections.into_iter();
    sections
        .filter(|section| !section.lines.is_empty())
        .collect()
}

fn describe_preemption(explanation: &Explanation) -> Vec<Sentence> {
    let victims = explanation.preempts.iter().map(describe_victim);
    let hidden = explanation.preempts_others.iter();
    let hidden = hidden.map(|hidden| Sentence::plain(describe_hidden_jobs(hidden)));
    let protected = explanation.protected.iter().map(describe_protected);
    victims.chain(hidden).chain(protected).collect()
}

/// Describes jobs whose names the caller may not read.
pub(crate) fn describe_hidden_jobs(hidden: &OtherJobs) -> String {
    let jobs = match hidden.count {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    };
    let priority = hidden.priority.map(|value| format!(", priority {value}"));
    format!(
        "{jobs} in namespaces that you may not see{}",
        priority.unwrap_or_default()
    )
}

fn describe_victim(victim: &Preempted) -> Sentence {
    let pod = victim.pod.as_ref().map(|pod| format!(" (only pod {pod})"));
    let because = victim.because.as_deref().unwrap_or("is leaving");
    Sentence::default()
        .job(&victim.job)
        .text(format!("{}: {because}", pod.unwrap_or_default()))
}

fn describe_protected(protected: &Protected) -> Sentence {
    let job = match &protected.job {
        Some(job) => Sentence::default().job(job),
        None => Sentence::plain("a job in a namespace that you may not see"),
    };
    job.text(format!(
        " can be preempted from {} on: it has not run for its minRuntimeSeconds, or a disruption budget has just protected it",
        protected.until.0
    ))
}

fn describe_smallest_change(change: Option<&SmallestChange>) -> Vec<Sentence> {
    let Some(change) = change else {
        return Vec::new();
    };
    let quotas = change.raise_quotas.iter().map(describe_quota);
    let limits = change.raise_limits.iter().map(describe_limit);
    let free = change.free.iter().map(describe_freed);
    quotas.chain(limits).chain(free).collect()
}

fn describe_quota(quota: &RaisedQuota) -> Sentence {
    let flavor = quota.flavor.as_ref();
    let flavor = flavor.map(|flavor| format!(" of flavor {flavor}"));
    Sentence::plain(format!("raise {} of queue ", quota.field))
        .queue(&quota.queue)
        .text(format!(
            " by {} {}{}",
            quota.by,
            quota.resource,
            flavor.unwrap_or_default()
        ))
}

fn describe_limit(limit: &RaisedLimit) -> Sentence {
    let jobs = match limit.by.as_str() {
        "1" => "job",
        _ => "jobs",
    };
    let unit = limit.resource.as_deref().unwrap_or(jobs);
    Sentence::plain(format!("raise {} by {} {unit}", limit.limit, limit.by))
}

fn describe_freed(freed: &FreedOn) -> Sentence {
    let sentence = Sentence::plain(format!("free {} on node ", join_amounts(&freed.amounts)))
        .node(&freed.node);
    if freed.held_by.is_empty() && freed.held_by_more.is_none() {
        return sentence;
    }
    let holders = freed.held_by.iter().map(Some);
    let more = freed.held_by_more.map(|_| None);
    sentence
        .text(", held by ")
        .list(holders.chain(more), |sentence, holder| match holder {
            Some(holder) => describe_holder(sentence, holder),
            None => sentence.text(format!("{} more", freed.held_by_more.unwrap_or_default())),
        })
}

fn describe_holder(sentence: Sentence, holder: &HeldBy) -> Sentence {
    let state = holder.state.as_deref().unwrap_or("not all Running");
    let state = Some(state).filter(|state| *state != "Running");
    let state = state.map(|state| format!(", {state}")).unwrap_or_default();
    let amounts = join_amounts(&holder.amounts);
    sentence
        .job(&holder.job)
        .text(format!(" ({amounts}{state})"))
}

fn describe_move(step: &MovableJob) -> Sentence {
    let hours = step.lost_device_seconds as f64 / 3_600.0;
    let sentence = Sentence::default().job(&step.job);
    let sentence = match step.nodes.is_empty() {
        true => sentence,
        false => sentence
            .text(" to ")
            .list(&step.nodes, |s, node| s.node(node)),
    };
    sentence.text(format!(": loses {hours:.1} device-hours of work"))
}

/// Joins amounts of resources, such as `8 nvidia.com/gpu, 1Ti memory`.
#[must_use]
pub fn join_amounts(amounts: &[Amount]) -> String {
    let each = amounts.iter().map(|amount| {
        let quantity = format_amount(&amount.resource, &amount.amount);
        format!("{quantity} {}", amount.resource)
    });
    each.collect::<Vec<_>>().join(", ")
}
