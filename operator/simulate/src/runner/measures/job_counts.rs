//! Counts, waits and completion times of the simulated jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::summary::{DomainSummary, SimulationSummary, SizeRow};

/// Upper bounds of the size classes, in GPUs.
const CLASSES: [i64; 7] = [0, 1, 8, 16, 32, 64, i64::MAX];
/// Least runtime that slowdown is computed with, in seconds: otherwise the shortest jobs would
/// dominate the mean (Feitelson et al., "Theory and Practice in Parallel Job Scheduling", JSSPP
/// '97).
const MIN_RUNTIME_SECONDS: f64 = 10.0;

#[derive(Debug, Default)]
struct SizeClassCounts {
    jobs: usize,
    waits: f64,
    started: usize,
    slowdowns: f64,
    ended: usize,
}

/// Counts and times of jobs.
#[derive(Debug, Default)]
pub(in crate::runner) struct JobCounts {
    pub(in crate::runner) jobs: usize,
    pub(in crate::runner) preemptions: usize,
    waits: Vec<f64>,
    /// Waits of gangs that fill a whole domain and must be in one.
    domain_waits: Vec<f64>,
    completions: f64,
    finished: usize,
    classes: BTreeMap<i64, SizeClassCounts>,
}

fn size_class(gpus: i64) -> i64 {
    let bound = CLASSES.iter().find(|limit| gpus <= **limit);
    bound.copied().unwrap_or(i64::MAX)
}

/// Formats a size class, such as `17..32`.
fn format_class(limit: i64) -> String {
    let before = CLASSES.iter().rev().find(|bound| **bound < limit);
    let minimum = before.map_or(0, |bound| bound.saturating_add(1));
    match limit {
        i64::MAX => format!("{minimum}.."),
        limit if limit == minimum => limit.to_string(),
        limit => format!("{minimum}..{limit}"),
    }
}

impl JobCounts {
    /// Counts a job that was submitted to its queue.
    pub(in crate::runner) fn add_queued(&mut self, gpus: i64) {
        let class = self.classes.entry(size_class(gpus)).or_default();
        class.jobs = class.jobs.saturating_add(1);
    }

    /// Counts the first start of a job.
    pub(in crate::runner) fn add_started(&mut self, gpus: i64, waited: Duration) {
        let waited = waited.as_secs_f64();
        self.waits.push(waited);
        let class = self.classes.entry(size_class(gpus)).or_default();
        class.waits += waited;
        class.started = class.started.saturating_add(1);
    }

    /// Counts the start of a gang that fills a whole domain and must be in one.
    pub(in crate::runner) fn add_whole_domain_wait(&mut self, waited: Duration) {
        self.domain_waits.push(waited.as_secs_f64());
    }

    /// Adds the waits of gangs that fill a whole domain.
    pub(in crate::runner) fn with_waits(&self, domains: DomainSummary) -> DomainSummary {
        let mut wait_seconds = self.domain_waits.clone();
        wait_seconds.sort_by(f64::total_cmp);
        DomainSummary {
            gangs: wait_seconds.len(),
            mean_wait_seconds: mean(wait_seconds.iter().sum(), wait_seconds.len()),
            p50_wait_seconds: percentile(&wait_seconds, 50),
            p99_wait_seconds: percentile(&wait_seconds, 99),
            ..domains
        }
    }

    /// Counts a job that has ended. `completion`: time since submission; `runtime`: time that the
    /// job itself ran.
    pub(in crate::runner) fn add_ended(
        &mut self,
        gpus: i64,
        completion: Duration,
        runtime: Duration,
    ) {
        let completion = completion.as_secs_f64();
        self.completions += completion;
        self.finished = self.finished.saturating_add(1);
        let class = self.classes.entry(size_class(gpus)).or_default();
        class.slowdowns += (completion / runtime.as_secs_f64().max(MIN_RUNTIME_SECONDS)).max(1.0);
        class.ended = class.ended.saturating_add(1);
    }

    /// Writes the counts into the summary.
    pub(in crate::runner) fn write_summary(&self, summary: &mut SimulationSummary) {
        let mut wait_seconds = self.waits.clone();
        wait_seconds.sort_by(f64::total_cmp);
        summary.jobs = self.jobs;
        summary.placed = self.waits.len();
        summary.finished = self.finished;
        summary.preemptions = self.preemptions;
        summary.mean_wait_seconds = mean(wait_seconds.iter().sum(), wait_seconds.len());
        summary.p50_wait_seconds = percentile(&wait_seconds, 50);
        summary.p99_wait_seconds = percentile(&wait_seconds, 99);
        summary.mean_completion_seconds = mean(self.completions, self.finished);
        let rows = self.classes.iter().map(|(limit, class)| SizeRow {
            gpus: format_class(*limit),
            jobs: class.jobs,
            mean_wait_seconds: mean(class.waits, class.started),
            mean_bounded_slowdown: mean(class.slowdowns, class.ended),
        });
        summary.by_size = rows.collect();
    }
}

fn mean(sum: f64, count: usize) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// Returns the percentile by nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_uses_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&hundred[..3], 50), Some(2.0));
        assert_eq!(percentile(&hundred[..1], 99), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn size_classes_are_named_by_gpus() {
        let class_name = |gpus| format_class(size_class(gpus));
        let cases = [
            (0, "0"),
            (1, "1"),
            (2, "2..8"),
            (8, "2..8"),
            (9, "9..16"),
            (64, "33..64"),
            (65, "65.."),
        ];
        for (gpus, expected) in cases {
            assert_eq!(class_name(gpus), expected);
        }
    }

    #[test]
    fn slowdown_of_a_short_job_is_bounded() {
        let mut tally = JobCounts::default();
        tally.add_queued(8);
        tally.add_started(8, Duration::from_secs(90));
        tally.add_ended(8, Duration::from_secs(91), Duration::from_secs(1));
        let mut summary = SimulationSummary::default();
        tally.write_summary(&mut summary);
        assert_eq!(summary.by_size[0].mean_bounded_slowdown, Some(9.1));
        assert_eq!(summary.mean_wait_seconds, Some(90.0));
        assert_eq!(summary.mean_completion_seconds, Some(91.0));
    }
}
