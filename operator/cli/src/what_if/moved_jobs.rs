//! The jobs that changes move, as text.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::visibility::{ExpectedTimes, ForecastEffect, ForecastStatus, MovedJob};

use crate::output::{Cell, Table, Tone, format_age, format_until};

/// Renders the sum of the effects, and a table of the jobs that move most first.
pub(super) fn render(status: &ForecastStatus, wide: bool, width: Option<usize>) -> String {
    let now = status.time.0;
    let mut jobs: Vec<&MovedJob> = status.jobs.iter().collect();
    jobs.sort_by_cached_key(|job| Reverse(distance(job)));
    let mut columns = vec![
        "JOB",
        "QUEUE",
        "GPUS",
        "EFFECT",
        "START BEFORE",
        "START AFTER",
    ];
    if wide {
        columns.extend(["END BEFORE", "END AFTER"]);
    }
    columns.push("DIFFERENCE");
    let mut table = Table::new(columns);
    for job in jobs {
        table.push_row(build_row(job, now, wide));
    }
    let mut text = match table.is_empty() {
        true => String::new(),
        false => table.render(0, width) + "\n",
    };
    text.push_str(&describe_sum(status));
    text.push('\n');
    text
}

fn build_row(job: &MovedJob, now: Timestamp, wide: bool) -> Vec<Cell> {
    let (before, after) = (job.before.as_ref(), job.after.as_ref());
    let mut cells: Vec<Cell> = vec![
        job.job.to_string().into(),
        job.queue.clone().into(),
        job.gpus.to_string().into(),
        effect_cell(job.effect),
        describe_start(before, now).into(),
        describe_start(after, now).into(),
    ];
    if wide {
        cells.extend([
            describe_end(before, now).into(),
            describe_end(after, now).into(),
        ]);
    }
    cells.push(describe_difference(job).into());
    cells
}

fn effect_cell(effect: ForecastEffect) -> Cell {
    let (word, tone) = match effect {
        ForecastEffect::Earlier => ("earlier", Tone::Good),
        ForecastEffect::Later => ("later", Tone::Waiting),
        ForecastEffect::Stops => ("stops", Tone::Bad),
        ForecastEffect::Stays => ("stays", Tone::Good),
        ForecastEffect::OtherEnd => ("other end", Tone::Plain),
        ForecastEffect::Added => ("added", Tone::Plain),
        ForecastEffect::Removed => ("removed", Tone::Plain),
    };
    Cell::new(word, tone)
}

fn describe_start(times: Option<&ExpectedTimes>, now: Timestamp) -> String {
    match times {
        None => "-".to_owned(),
        Some(times) if times.placed => "runs".to_owned(),
        Some(times) => describe_time(times.start.as_ref(), now),
    }
}

fn describe_end(times: Option<&ExpectedTimes>, now: Timestamp) -> String {
    times.map_or("-".to_owned(), |times| {
        describe_time(times.end.as_ref(), now)
    })
}

fn describe_time(time: Option<&Time>, now: Timestamp) -> String {
    match time.map(|time| format_until(time.0, now)) {
        None => "unknown".to_owned(),
        Some(now) if now == "now" => now,
        Some(span) => format!("in {span}"),
    }
}

/// The moment that a change moves: the start, or the end of a job that has its place.
fn moved_moment(times: &ExpectedTimes) -> Option<Timestamp> {
    let moment = if times.placed {
        &times.end
    } else {
        &times.start
    };
    moment.as_ref().map(|time| time.0)
}

fn describe_difference(job: &MovedJob) -> String {
    let (Some(before), Some(after)) = (&job.before, &job.after) else {
        return String::new();
    };
    if before.placed && !after.placed {
        return "loses its place".to_owned();
    }
    let verb = if after.placed { "ends" } else { "starts" };
    match (moved_moment(before), moved_moment(after)) {
        (Some(old), Some(new)) if new < old => format!("{verb} {} earlier", format_age(new, old)),
        (Some(old), Some(new)) if new > old => format!("{verb} {} later", format_age(old, new)),
        (Some(_), None) => format!("no longer {verb} at a known time"),
        (None, Some(_)) => format!("{verb} at a known time"),
        _ => "ends at another time".to_owned(),
    }
}

/// How far a job moves, in seconds. A job that gains or loses a known time moves farthest.
fn distance(job: &MovedJob) -> i64 {
    let moment = |times: &Option<ExpectedTimes>| times.as_ref().and_then(moved_moment);
    match (moment(&job.before), moment(&job.after)) {
        (Some(old), Some(new)) => {
            let seconds = new.as_second().saturating_sub(old.as_second());
            seconds.saturating_abs()
        }
        (None, None) => 0,
        _ => i64::MAX,
    }
}

/// Tells how many jobs the changes move, and how.
fn describe_sum(status: &ForecastStatus) -> String {
    let count = |effect| {
        status
            .jobs
            .iter()
            .filter(|job| job.effect == effect)
            .count()
    };
    let parts = [
        (ForecastEffect::Earlier, "start earlier", "starts earlier"),
        (ForecastEffect::Later, "start later", "starts later"),
        (ForecastEffect::Stops, "have to stop", "has to stop"),
        (
            ForecastEffect::Stays,
            "no longer have to stop",
            "no longer has to stop",
        ),
        (
            ForecastEffect::OtherEnd,
            "end at another time",
            "ends at another time",
        ),
        (ForecastEffect::Added, "are added", "is added"),
        (ForecastEffect::Removed, "are removed", "is removed"),
    ];
    let mut parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(effect, many, one)| match count(effect) {
            0 => None,
            1 => Some(format!("1 job {one}")),
            jobs => Some(format!("{jobs} jobs {many}")),
        })
        .collect();
    parts.push(match (parts.is_empty(), status.unmoved) {
        (true, _) => "no job moves".to_owned(),
        (false, 1) => "1 job does not move".to_owned(),
        (false, jobs) => format!("{jobs} jobs do not move"),
    });
    let mut sum = parts.join(", ");
    if let Some(horizon) = &status.horizon {
        let span = format_until(horizon.0, status.time.0);
        sum.push_str(&format!(
            " in the next {span}, as far as the scheduler looked ahead"
        ));
    }
    sum
}
