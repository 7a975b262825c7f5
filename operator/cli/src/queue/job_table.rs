//! The table of jobs. Pure.

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{GangName, JobState, QueueState};

use crate::output::{Cell, Table, Tone, format_age, format_until, phase_tone};

/// The filter for jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobFilter<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) waiting: bool,
    pub(super) running: bool,
}

impl JobFilter<'_> {
    /// Returns the matching jobs, sorted by queue.
    /// In each queue, placed jobs come first, the oldest first. Pending jobs follow in the order of
    /// the queue.
    pub(super) fn select<'j>(&self, jobs: &'j [JobState]) -> Vec<&'j JobState> {
        let mut selected: Vec<_> = jobs.iter().filter(|job| self.matches(job)).collect();
        selected.sort_by_key(|job| {
            let meta = &job.metadata;
            let name = (meta.namespace.as_deref(), meta.name.as_deref());
            (
                job.queue.as_str(),
                job.position,
                job.since.0,
                Reverse(job.priority),
                name,
            )
        });
        selected
    }

    fn matches(&self, job: &JobState) -> bool {
        let is_waiting = is_pending(job);
        self.queue.is_none_or(|queue| job.queue == queue)
            && self
                .user
                .is_none_or(|user| job.user.as_deref() == Some(user))
            && (if is_waiting {
                self.waiting
            } else {
                self.running
            })
    }

    /// Returns the selected queue if neither a queue nor a job has this name.
    /// None also if the queues are unknown.
    pub(super) fn unknown_queue(
        &self,
        jobs: &[JobState],
        queues: Option<&[QueueState]>,
    ) -> Option<&str> {
        let name = self.queue?;
        let exists = queues?.iter().any(|queue| self.matches_queue(queue));
        let is_named = jobs.iter().any(|job| job.queue == name);
        (!exists && !is_named).then_some(name)
    }

    /// Returns true if the filter selects the queue.
    pub(super) fn matches_queue(&self, queue: &QueueState) -> bool {
        self.queue
            .is_none_or(|name| queue.metadata.name.as_deref() == Some(name))
    }
}

/// Returns true for a pending job.
/// A nominated job, which waits for its victims, has no position any more but is pending too.
fn is_pending(job: &JobState) -> bool {
    job.position.is_some() || job.phase == Some(JobPhase::Queued)
}

pub(super) fn render_table(
    jobs: &[&JobState],
    now: Timestamp,
    wide: bool,
    width: Option<usize>,
) -> String {
    if jobs.is_empty() {
        return "no such job is pending or placed\n".to_owned();
    }
    let mut columns = vec![
        "POS",
        "NAMESPACE",
        "JOB",
        "USER",
        "QUEUE",
        "PRIORITY",
        "GPUS",
        "PODS",
    ];
    if wide {
        columns.extend(["SHARE", "NODES"]);
    }
    columns.extend(["STATE", "SINCE", "ETA", "REASON"]);
    let mut table = Table::new(columns);
    for job in jobs {
        table.push_row(build_row(job, now, wide));
    }
    table.render(0, width)
}

fn build_row(job: &JobState, now: Timestamp, wide: bool) -> Vec<Cell> {
    let phase = job.phase.unwrap_or(JobPhase::Queued);
    let position = job
        .position
        .map_or("-".to_owned(), |position| position.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut cells: Vec<Cell> = vec![
        position.into(),
        text(&job.metadata.namespace).into(),
        GangName::from_object_name(&text(&job.metadata.name))
            .to_string()
            .into(),
        job.user.clone().unwrap_or_else(|| "-".to_owned()).into(),
        job.queue.clone().into(),
        job.priority.to_string().into(),
        job.gpus.to_string().into(),
        job.pods.to_string().into(),
    ];
    if wide {
        let share = job.queue_share.clone().unwrap_or_else(|| "-".to_owned());
        cells.extend([share.into(), format_nodes(job).into()]);
    }
    cells.extend([
        Cell::new(phase.as_str(), phase_tone(phase)),
        format_age(job.since.0, now).into(),
        Cell::new(format_eta(job, now), Tone::Plain),
        describe_reason(job, phase).into(),
    ]);
    cells
}

/// Formats the expected start or end.
fn format_eta(job: &JobState, now: Timestamp) -> String {
    let known =
        |word: &str, time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.map(|time| match format_until(time.0, now).as_str() {
                "now" => format!("{word} now"),
                span => format!("{word} in {span}"),
            })
        };
    let eta = match is_pending(job) {
        true if job.reason.is_some_and(Reason::requires_change) => {
            Some("never as it is".to_owned())
        }
        true => known("starts", job.expected_start.as_ref()),
        false => known("ends", job.expected_end.as_ref()),
    };
    eta.unwrap_or_else(|| "-".to_owned())
}

/// A running job needs no explanation.
fn describe_reason(job: &JobState, phase: JobPhase) -> String {
    let Some(reason) = job.reason.filter(|_| phase != JobPhase::Running) else {
        return String::new();
    };
    match &job.message {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_string(),
    }
}

fn format_nodes(job: &JobState) -> String {
    let all = job
        .node_count
        .map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let named = job.nodes.join(",");
    match all.saturating_sub(job.nodes.len()) {
        _ if all == 0 => "-".to_owned(),
        0 => named,
        more => format!("{named},+{more}"),
    }
}
