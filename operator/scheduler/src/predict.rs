//! How long a run will take, predicted from earlier runs.
//!
//! Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions Rather Than User
//! Runtime Estimates", IEEE TPDS 18(6), 2007: the average of the last two runs predicts better than
//! cleverer methods, and a run that exceeds its prediction gets a new one, a little later each
//! time. For a job without earlier runs the queue gives the prediction: nine in ten of its last
//! hundred runs were no longer. Backfill plans with predictions; the engine never ends a gang
//! because of one.
//! were no longer. Backfill plans with it; nothing is ever ended by it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::ids::QueueName;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// How much a prediction grows each time that it is exceeded, in seconds; the last step repeats.
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

/// Runs of a queue that its prediction is made from.
const RUNS: usize = 100;
/// A queue with fewer runs has no prediction.
const FEWEST_RUNS: usize = 10;
/// Names that are remembered at most; the one that ran longest ago is forgotten first.
const NAMES: usize = 10_000;

/// The last runs, by queue and by a key that similar runs share: namespace and name of a job, or
/// the user of a recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictor {
    runs: BTreeMap<String, Runs>,
    /// The keys of `runs`, by when they were last seen.
    names: BTreeMap<u64, String>,
    seen: u64,
    queues: BTreeMap<QueueName, VecDeque<Duration>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    last: Duration,
    before: Option<Duration>,
    seen: u64,
}

impl Predictor {
    /// A predictor without runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A run has ended by itself after `ran`. Returns true if that changes the prediction of its
    /// queue.
    pub fn observe(&mut self, who: &str, queue: &QueueName, ran: Duration) -> bool {
        self.seen = self.seen.saturating_add(1);
        let runs = Runs {
            last: ran,
            before: self.runs.get(who).map(|runs| runs.last),
            seen: self.seen,
        };
        if let Some(before) = self.runs.insert(who.to_owned(), runs) {
            self.names.remove(&before.seen);
        }
        self.names.insert(self.seen, who.to_owned());
        while self.names.len() > NAMES
            && let Some((_, name)) = self.names.pop_first()
        {
            self.runs.remove(&name);
        }
        let expected = self.expect(queue);
        let recent = self.queues.entry(queue.clone()).or_default();
        recent.push_back(ran);
        if recent.len() > RUNS {
            recent.pop_front();
        }
        self.expect(queue) != expected
    }

    /// The predicted duration of the next run. None: no earlier run is known.
    #[must_use]
    pub fn predict(&self, who: &str) -> Option<Duration> {
        let runs = self.runs.get(who)?;
        let Some(before) = runs.before else {
            return Some(runs.last);
        };
        runs.last.saturating_add(before).checked_div(2)
    }

    /// The predicted duration of a run in this queue without earlier runs: the 90th percentile of
    /// recent runs, rounded up so that it seldom changes. None: too few runs are known.
    #[must_use]
    pub fn expect(&self, queue: &QueueName) -> Option<Duration> {
        let recent = self.queues.get(queue)?;
        if recent.len() < FEWEST_RUNS {
            return None;
        }
        let mut recent: Vec<Duration> = recent.iter().copied().collect();
        recent.sort_unstable();
        // The nearest rank: the ninth of ten.
        let rank = recent.len().saturating_mul(9).div_ceil(10);
        let ran = *recent.get(rank.saturating_sub(1))?;
        let rounded = STEPS.iter().map(|step| Duration::from_secs(*step));
        Some(rounded.filter(|step| *step >= ran).min().unwrap_or(ran))
    }

    /// The queue is gone: its runs are forgotten.
    pub fn forget(&mut self, queue: &QueueName) {
        self.queues.remove(queue);
    }
}

/// The prediction for a run that has already taken `ran`: the first prediction if the run has not
/// exceeded it, else the next step that it has not exceeded.
#[must_use]
pub(crate) fn corrected(prediction: Duration, ran: Duration) -> Duration {
    let mut now = prediction;
    for step in STEPS {
        if now >= ran {
            return now;
        }
        now = now.saturating_add(Duration::from_secs(step));
    }
    let last = STEPS.last().copied().unwrap_or(HOUR);
    // A started second counts as a whole one.
    let lacking = ran.saturating_sub(now).as_millis().div_ceil(1000);
    let lacking = u64::try_from(lacking).unwrap_or(u64::MAX);
    let more = lacking.div_ceil(last);
    now.saturating_add(Duration::from_secs(more.saturating_mul(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn queue() -> QueueName {
        QueueName::new("default")
    }

    #[test]
    fn the_average_of_the_last_two() {
        let mut predictor = Predictor::new();
        assert_eq!(predictor.predict("a/llm"), None);
        let expected = [(100, 100), (300, 200), (500, 400), (100, 300)];
        for (ran, next) in expected {
            predictor.observe("a/llm", &queue(), seconds(ran));
            assert_eq!(predictor.predict("a/llm"), Some(seconds(next)));
        }
        assert_eq!(predictor.predict("b/llm"), None);
    }

    #[test]
    fn what_nine_in_ten_of_a_queue_did_not_exceed_rounded_up() {
        let mut predictor = Predictor::new();
        let mut observe = |ran| predictor.observe("a/llm", &queue(), seconds(ran));
        let changes: Vec<_> = (1..=9).map(|_| observe(100)).collect();
        assert_eq!(changes, [false; 9]);
        // Nine of 100 s, one of a day.
        assert!(observe(86_400));
        assert_eq!(predictor.expect(&queue()), Some(seconds(300)));
        // Two in eleven are longer.
        assert!(predictor.observe("b/other", &queue(), seconds(86_400)));
        assert_eq!(predictor.expect(&queue()), Some(seconds(50 * HOUR)));
        // A hundred later runs push those out.
        for _ in 0..RUNS {
            predictor.observe("a/llm", &queue(), seconds(60));
        }
        assert_eq!(predictor.expect(&queue()), Some(seconds(60)));
        assert_eq!(predictor.expect(&QueueName::new("other")), None);
        predictor.forget(&queue());
        assert_eq!(predictor.expect(&queue()), None);
    }

    #[test]
    fn who_ran_longest_ago_is_forgotten_first() {
        let mut predictor = Predictor::new();
        for n in 0..=NAMES {
            predictor.observe(&format!("a/{n}"), &queue(), seconds(1));
            predictor.observe("a/again", &queue(), seconds(1));
        }
        let known = |who| predictor.predict(who).is_some();
        assert!(!known("a/0") && known("a/again") && known("a/2"));
        assert_eq!(predictor.runs.len(), NAMES);
        assert_eq!(predictor.names.len(), NAMES);
    }

    #[test]
    fn what_is_exceeded_grows_step_by_step() {
        let of = |ran| corrected(seconds(100), seconds(ran)).as_secs();
        assert_eq!(of(99), 100);
        assert_eq!(of(100), 100);
        assert_eq!(of(101), 160);
        assert_eq!(of(161), 160 + 300);
        assert_eq!(of(461), 460 + 900);
        // The whole ladder, then 100 hours at a time.
        let ladder: u64 = STEPS.iter().sum();
        assert_eq!(of(100 + ladder), 100 + ladder);
        assert_eq!(of(101 + ladder), 100 + ladder + 360_000);
        assert_eq!(of(100 + ladder + 720_000), 100 + ladder + 720_000);
        let forever = corrected(Duration::MAX, Duration::MAX);
        assert_eq!(forever, Duration::MAX);
    }

    #[test]
    fn runs_without_end_do_not_overflow() {
        let mut predictor = Predictor::new();
        predictor.observe("a", &queue(), Duration::MAX);
        predictor.observe("a", &queue(), Duration::MAX);
        assert_eq!(predictor.predict("a"), Duration::MAX.checked_div(2));
    }
}
