//! Counts and times of the simulated jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::summary::{DomainSummary, SizeRow, Summary};

/// Upper bounds of the size classes, in GPUs.
const CLASSES: [i64; 7] = [0, 1, 8, 16, 32, 64, i64::MAX];
/// Least runtime that slowdown is computed with, in seconds: otherwise the shortest jobs would
/// dominate the mean (Feitelson et al., "Theory and Practice in Parallel Job Scheduling", JSSPP
/// '97).
const BOUND: f64 = 10.0;

#[derive(Debug, Default)]
struct Class {
    jobs: usize,
    waits: f64,
    started: usize,
    slowdowns: f64,
    ended: usize,
}

/// Counts and times of jobs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) jobs: usize,
    pub(super) preemptions: usize,
    waits: Vec<f64>,
    /// Waits of gangs that fill a whole domain and must be in one.
    domain_waits: Vec<f64>,
    completions: f64,
    finished: usize,
    classes: BTreeMap<i64, Class>,
}

fn class(gpus: i64) -> i64 {
    let bound = CLASSES.iter().find(|most| gpus <= **most);
    bound.copied().unwrap_or(i64::MAX)
}

/// `17..32`.
fn words(most: i64) -> String {
    let before = CLASSES.iter().rev().find(|bound| **bound < most);
    let least = before.map_or(0, |bound| bound.saturating_add(1));
    match most {
        i64::MAX => format!("{least}.."),
        most if most == least => most.to_string(),
        most => format!("{least}..{most}"),
    }
}

impl Tally {
    /// A job has come to its queue.
    pub(super) fn queued(&mut self, gpus: i64) {
        let class = self.classes.entry(class(gpus)).or_default();
        class.jobs = class.jobs.saturating_add(1);
    }

    /// It has started for the first time.
    pub(super) fn started(&mut self, gpus: i64, waited: Duration) {
        let waited = waited.as_secs_f64();
        self.waits.push(waited);
        let class = self.classes.entry(class(gpus)).or_default();
        class.waits += waited;
        class.started = class.started.saturating_add(1);
    }

    /// Notes that a gang has started that fills a whole domain and must be in one.
    pub(super) fn started_in_whole_domain(&mut self, waited: Duration) {
        self.domain_waits.push(waited.as_secs_f64());
    }

    /// Adds how long gangs waited that fill a whole domain.
    pub(super) fn sum_up_domains(&self, domains: DomainSummary) -> DomainSummary {
        let mut waits = self.domain_waits.clone();
        waits.sort_by(f64::total_cmp);
        DomainSummary {
            gangs: waits.len(),
            mean_wait_seconds: mean(waits.iter().sum(), waits.len()),
            p50_wait_seconds: percentile(&waits, 50),
            p99_wait_seconds: percentile(&waits, 99),
            ..domains
        }
    }

    /// Counts a job that has ended. `completion`: time since submission; `runtime`: its own part of
    /// that.
    pub(super) fn ended(&mut self, gpus: i64, completion: Duration, runtime: Duration) {
        let completion = completion.as_secs_f64();
        self.completions += completion;
        self.finished = self.finished.saturating_add(1);
        let class = self.classes.entry(class(gpus)).or_default();
        class.slowdowns += (completion / runtime.as_secs_f64().max(BOUND)).max(1.0);
        class.ended = class.ended.saturating_add(1);
    }

    /// Writes the counts into the summary.
    pub(super) fn sum_up(&self, summary: &mut Summary) {
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        summary.jobs = self.jobs;
        summary.placed = self.waits.len();
        summary.finished = self.finished;
        summary.preemptions = self.preemptions;
        summary.mean_wait_seconds = mean(waits.iter().sum(), waits.len());
        summary.p50_wait_seconds = percentile(&waits, 50);
        summary.p99_wait_seconds = percentile(&waits, 99);
        summary.mean_completion_seconds = mean(self.completions, self.finished);
        let rows = self.classes.iter().map(|(most, class)| SizeRow {
            gpus: words(*most),
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

/// The percentile by nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&hundred[..3], 50), Some(2.0));
        assert_eq!(percentile(&hundred[..1], 99), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn classes_are_told_by_their_gpus() {
        let shown = |gpus| words(class(gpus));
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
            assert_eq!(shown(gpus), expected);
        }
    }

    #[test]
    fn a_short_job_is_not_slowed_down_a_thousandfold() {
        let mut tally = Tally::default();
        tally.queued(8);
        tally.started(8, Duration::from_secs(90));
        tally.ended(8, Duration::from_secs(91), Duration::from_secs(1));
        let mut summary = Summary::default();
        tally.sum_up(&mut summary);
        assert_eq!(summary.by_size[0].mean_bounded_slowdown, Some(9.1));
        assert_eq!(summary.mean_wait_seconds, Some(90.0));
        assert_eq!(summary.mean_completion_seconds, Some(91.0));
    }
}
