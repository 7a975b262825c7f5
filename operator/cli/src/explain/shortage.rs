//! Shows what a job lacks, in numbers, and what would help. Pure.

use trellis_api::visibility::{
    Amount, Explanation, HeldBy, QueueResource, QueueState, Shortage, SmallestChange,
};

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
    let makes_room = !explanation.preempts.is_empty() || !explanation.preempts_others.is_empty();
    if makes_room || !explanation.protected.is_empty() {
        out.push_str(&render_heading("Preemption"));
        for victim in &explanation.preempts {
            let pod = victim.pod.as_ref().map(|pod| format!(" (only pod {pod})"));
            let because = victim.because.as_deref().unwrap_or("is leaving");
            let line = format!("{}{}: {because}", victim.job, pod.unwrap_or_default());
            out.push_str(&wrap_text(&line, 2, width, Tone::Plain));
        }
        for hidden in &explanation.preempts_others {
            let jobs = match hidden.count {
                1 => "1 job".to_owned(),
                count => format!("{count} jobs"),
            };
            let priority = hidden.priority.map(|value| format!(", priority {value}"));
            let line = format!(
                "{jobs} in namespaces that you may not see{}",
                priority.unwrap_or_default()
            );
            out.push_str(&wrap_text(&line, 2, width, Tone::Plain));
        }
        for protected in &explanation.protected {
            let job = match &protected.job {
                Some(job) => job.to_string(),
                None => "a job in a namespace that you may not see".to_owned(),
            };
            let line = format!(
                "{job} can be preempted from {} on: it has not run for its minRuntimeSeconds, or a disruption budget has just protected it",
                protected.until.0
            );
            out.push_str(&wrap_text(&line, 2, width, Tone::Plain));
        }
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

/// Renders the smallest change that would help.
pub(super) fn render_smallest_change(explanation: &Explanation, width: usize) -> String {
    let Some(change) = &explanation.smallest_change else {
        return String::new();
    };
    let mut out = render_heading("The smallest change that would help");
    for line in describe_changes(change) {
        out.push_str(&wrap_text(&line, 2, width, Tone::Good));
    }
    out
}

/// Renders the changes of the job's own request that would help.
pub(super) fn render_request_changes(explanation: &Explanation, width: usize) -> String {
    if explanation.request_changes.is_empty() {
        return String::new();
    }
    let mut out = render_heading("The job would start now with any one of these changes");
    for change in &explanation.request_changes {
        let line = format!("{}: {}", change.field, change.value);
        out.push_str(&wrap_text(&line, 2, width, Tone::Good));
    }
    let how = "A job that was placed before must be suspended for the change";
    out.push_str(&wrap_text(how, 2, width, Tone::Dim));
    out
}

/// Renders the running jobs whose move would help.
pub(super) fn render_moves(explanation: &Explanation, width: usize) -> String {
    if explanation.moves.is_empty() {
        return String::new();
    }
    let mut out = render_heading("It would start if these jobs moved");
    for step in &explanation.moves {
        let nodes = match step.nodes.is_empty() {
            true => String::new(),
            false => format!(" to {}", step.nodes.join(", ")),
        };
        let hours = step.lost_device_seconds as f64 / 3_600.0;
        let line = format!("{}{nodes}: loses {hours:.1} device-hours of work", step.job);
        out.push_str(&wrap_text(&line, 2, width, Tone::Good));
    }
    let how = "Trellis moves no job: suspend all of these jobs, and resume them after this job has started";
    out.push_str(&wrap_text(how, 2, width, Tone::Dim));
    out
}

fn describe_changes(change: &SmallestChange) -> Vec<String> {
    let quotas = change.raise_quotas.iter().map(|quota| {
        let flavor = quota
            .flavor
            .as_ref()
            .map(|flavor| format!(" of flavor {flavor}"));
        format!(
            "raise {} of queue {} by {} {}{}",
            quota.field,
            quota.queue,
            quota.by,
            quota.resource,
            flavor.unwrap_or_default()
        )
    });
    let limits = change.raise_limits.iter().map(|limit| {
        let jobs = if limit.by.as_str() == "1" {
            "job"
        } else {
            "jobs"
        };
        let unit = limit.resource.as_deref().unwrap_or(jobs);
        format!("raise {} by {} {unit}", limit.limit, limit.by)
    });
    let free = change.free.iter().map(|freed| {
        let mut holders: Vec<_> = freed.held_by.iter().map(describe_holder).collect();
        holders.extend(freed.held_by_more.map(|count| format!("{count} more")));
        let holder_text = match holders.is_empty() {
            true => String::new(),
            false => format!(", held by {}", holders.join(", ")),
        };
        format!(
            "free {} on node {}{holder_text}",
            join_amounts(&freed.amounts),
            freed.node
        )
    });
    quotas.chain(limits).chain(free).collect()
}

fn describe_holder(holder: &HeldBy) -> String {
    let state = holder.state.as_deref().unwrap_or("not all Running");
    let state = Some(state).filter(|state| *state != "Running");
    let state = state.map(|state| format!(", {state}")).unwrap_or_default();
    format!("{} ({}{state})", holder.job, join_amounts(&holder.amounts))
}

pub(super) fn join_amounts(amounts: &[Amount]) -> String {
    let each = amounts.iter().map(|amount| {
        format!(
            "{} {}",
            format_amount(&amount.resource, &amount.amount),
            amount.resource
        )
    });
    each.collect::<Vec<_>>().join(", ")
}
