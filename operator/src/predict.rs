//! How long a run will take, from those before it. Pure.
//!
//! Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions
//! Rather Than User Runtime Estimates", IEEE TPDS 18(6), 2007: the average of the
//! last two runs predicts better than anything more clever, and what runs longer
//! than was predicted gets a new prediction, a little later each time. Backfill
//! plans with it; nothing is ever ended by it.

use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// By how much a prediction grows each time that it is exceeded, in seconds; the
/// last again and again.
const STEPS: [u64; 11] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    20 * HOUR,
    50 * HOUR,
    100 * HOUR,
];

/// The last two runs by whatever makes runs alike: namespace and name of a job,
/// the user of a recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictor {
    runs: BTreeMap<String, Runs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    last: Duration,
    before: Option<Duration>,
}

impl Predictor {
    /// One that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A run has ended of itself after so long.
    pub fn observe(&mut self, who: &str, ran: Duration) {
        if let Some(runs) = self.runs.get_mut(who) {
            *runs = Runs {
                last: ran,
                before: Some(runs.last),
            };
            return;
        }
        let first = Runs {
            last: ran,
            before: None,
        };
        self.runs.insert(who.to_owned(), first);
    }

    /// How long the next run will take. None: nothing is known.
    #[must_use]
    pub fn predict(&self, who: &str) -> Option<Duration> {
        let runs = self.runs.get(who)?;
        let Some(before) = runs.before else {
            return Some(runs.last);
        };
        runs.last.saturating_add(before).checked_div(2)
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self, who: &str) {
        self.runs.remove(who);
    }
}

/// The prediction of a run that has been going on for so long: as it is, or,
/// where it is exceeded, the next that is not.
#[must_use]
pub fn corrected(prediction: Duration, ran: Duration) -> Duration {
    let last = STEPS.last().copied().unwrap_or(HOUR);
    let steps = STEPS.iter().copied().chain(std::iter::repeat(last));
    let mut now = prediction;
    for step in steps {
        if now > ran || now == Duration::MAX {
            break;
        }
        now = now.saturating_add(Duration::from_secs(step));
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_average_of_the_last_two() {
        let mut predictor = Predictor::new();
        assert_eq!(predictor.predict("a/llm"), None);
        let expected = [(100, 100), (300, 200), (500, 400), (100, 300)];
        for (ran, next) in expected {
            predictor.observe("a/llm", seconds(ran));
            assert_eq!(predictor.predict("a/llm"), Some(seconds(next)));
        }
        assert_eq!(predictor.predict("b/llm"), None);
        predictor.forget("a/llm");
        assert_eq!(predictor, Predictor::new());
    }

    #[test]
    fn what_is_exceeded_grows_step_by_step() {
        let of = |ran| corrected(seconds(100), seconds(ran)).as_secs();
        assert_eq!(of(99), 100);
        assert_eq!(of(100), 160);
        assert_eq!(of(159), 160);
        assert_eq!(of(160), 160 + 300);
        assert_eq!(of(460), 460 + 900);
        // The whole ladder, then 100 hours at a time.
        let ladder: u64 = STEPS.iter().sum();
        assert_eq!(of(100 + ladder), 100 + ladder + 360_000);
        let forever = corrected(Duration::MAX, Duration::MAX);
        assert_eq!(forever, Duration::MAX);
    }

    #[test]
    fn runs_without_end_do_not_overflow() {
        let mut predictor = Predictor::new();
        predictor.observe("a", Duration::MAX);
        predictor.observe("a", Duration::MAX);
        assert_eq!(predictor.predict("a"), Duration::MAX.checked_div(2));
    }
}
