//! Adds up the waiting time of jobs from the number of jobs that wait at each scrape.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The longest time between two counts in which the jobs of the earlier count are taken to wait. It is
/// longer than the usual scrape intervals.
const MAX_GAP: Duration = Duration::from_secs(120);

/// The number of jobs that wait, by queue, and when it was counted.
#[derive(Debug, Default)]
pub(super) struct WaitIntegral {
    counted_at: Option<Instant>,
    jobs: BTreeMap<String, usize>,
}

impl WaitIntegral {
    /// Replaces the previous count. Returns the job-seconds since that count, by queue, and assumes
    /// that all jobs of that count waited until `now`, but at most for [`MAX_GAP`]. If `now` is before
    /// that count, they are 0.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        jobs: BTreeMap<String, usize>,
    ) -> BTreeMap<String, f64> {
        let before = self.counted_at.replace(now);
        let elapsed = before.map_or(0.0, |before| {
            let elapsed = now.saturating_duration_since(before);
            elapsed.min(MAX_GAP).as_secs_f64()
        });
        let waited = std::mem::replace(&mut self.jobs, jobs).into_iter();
        waited
            .map(|(queue, jobs)| (queue, jobs as f64 * elapsed))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_count_wait_until_the_next_count() {
        let counts = |jobs: &[(&str, usize)]| -> BTreeMap<String, usize> {
            let jobs = jobs.iter();
            jobs.map(|(queue, jobs)| ((*queue).to_owned(), *jobs))
                .collect()
        };
        let mut integral = WaitIntegral::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let none = BTreeMap::new();
        assert_eq!(integral.advance(start, counts(&[("a", 2), ("b", 1)])), none);
        let first = integral.advance(later(10), counts(&[("a", 1)]));
        assert_eq!(
            first,
            [("a".to_owned(), 20.0), ("b".to_owned(), 10.0)].into()
        );
        let second = integral.advance(later(15), counts(&[]));
        assert_eq!(second, [("a".to_owned(), 5.0)].into());
        assert_eq!(integral.advance(later(20), counts(&[("a", 1)])), none);
        // No scrape came for long, and the job may have started meanwhile.
        let gap = integral.advance(later(9_999), counts(&[]));
        assert_eq!(gap, [("a".to_owned(), 120.0)].into());
    }
}
