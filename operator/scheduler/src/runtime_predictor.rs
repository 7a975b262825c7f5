//! Prediction of the duration of a run from earlier runs.
//!
//! Source: Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions Rather Than
//! User Runtime Estimates", IEEE TPDS 18(6), 2007. The average of the last two runs predicts better
//! than more complex methods. A run that exceeds its prediction gets a new, larger one each time.
//! For a job without earlier runs the queue gives the prediction: the duration that nine in ten of
//! its last hundred runs did not exceed. Backfill plans with predictions. The engine never ends a
//! gang because of a prediction.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::ids::QueueName;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// How much a prediction grows each time that a run exceeds it, in seconds. The last step repeats.
const GROWTH_STEPS: [u64; 11] = [
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

/// The largest number of recent runs that the prediction of a queue uses.
const MAX_RUNS_PER_QUEUE: usize = 100;
/// The least number of runs for a prediction of a queue.
const MIN_RUNS_PER_QUEUE: usize = 10;
/// The largest number of keys that the predictor remembers. It first forgets the key whose last run
/// is the oldest.
const MAX_RUN_KEYS: usize = 10_000;

/// The last runs, by queue and by a key that similar runs share: namespace and name of a job, or
/// the user of a recorded job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimePredictor {
    runs: BTreeMap<String, LastRuns>,
    /// The keys of `runs`, by their last use.
    keys_by_last_use: BTreeMap<u64, String>,
    clock: u64,
    queues: BTreeMap<QueueName, VecDeque<Duration>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastRuns {
    last: Duration,
    previous: Option<Duration>,
    last_use: u64,
}

impl RuntimePredictor {
    /// Returns a predictor without runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a run that ended by itself after `ran`. Returns true if the prediction of its queue
    /// changes.
    pub fn observe(&mut self, who: &str, queue: &QueueName, ran: Duration) -> bool {
        self.clock = self.clock.saturating_add(1);
        let runs = LastRuns {
            last: ran,
            previous: self.runs.get(who).map(|runs| runs.last),
            last_use: self.clock,
        };
        if let Some(before) = self.runs.insert(who.to_owned(), runs) {
            self.keys_by_last_use.remove(&before.last_use);
        }
        self.keys_by_last_use.insert(self.clock, who.to_owned());
        while self.keys_by_last_use.len() > MAX_RUN_KEYS
            && let Some((_, name)) = self.keys_by_last_use.pop_first()
        {
            self.runs.remove(&name);
        }
        let expected = self.predict_for_queue(queue);
        let recent = self.queues.entry(queue.clone()).or_default();
        recent.push_back(ran);
        if recent.len() > MAX_RUNS_PER_QUEUE {
            recent.pop_front();
        }
        self.predict_for_queue(queue) != expected
    }

    /// Returns the predicted duration of the next run. None: no earlier run is known.
    #[must_use]
    pub fn predict(&self, who: &str) -> Option<Duration> {
        let runs = self.runs.get(who)?;
        let Some(before) = runs.previous else {
            return Some(runs.last);
        };
        runs.last.saturating_add(before).checked_div(2)
    }

    /// Returns the predicted duration of a run without earlier runs in this queue: the 90th
    /// percentile of the queue's recent runs, rounded up so that it seldom changes. None: too few
    /// runs are known.
    #[must_use]
    pub fn predict_for_queue(&self, queue: &QueueName) -> Option<Duration> {
        let recent = self.queues.get(queue)?;
        if recent.len() < MIN_RUNS_PER_QUEUE {
            return None;
        }
        let mut recent: Vec<Duration> = recent.iter().copied().collect();
        recent.sort_unstable();
        // The nearest rank. With ten runs it is the ninth.
        let rank = recent.len().saturating_mul(9).div_ceil(10);
        let ran = *recent.get(rank.saturating_sub(1))?;
        let rounded = GROWTH_STEPS.iter().map(|step| Duration::from_secs(*step));
        Some(rounded.filter(|step| *step >= ran).min().unwrap_or(ran))
    }

    /// Forgets the runs of a deleted queue.
    pub fn forget_queue(&mut self, queue: &QueueName) {
        self.queues.remove(queue);
    }
}

/// Returns the prediction for a run that has already taken `ran`: the first prediction if the run
/// has not exceeded it, or else the next step that it has not exceeded.
#[must_use]
pub(crate) fn correct_prediction(prediction: Duration, ran: Duration) -> Duration {
    let mut now = prediction;
    for step in GROWTH_STEPS {
        if now >= ran {
            return now;
        }
        now = now.saturating_add(Duration::from_secs(step));
    }
    let last = GROWTH_STEPS.last().copied().unwrap_or(HOUR);
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
    fn prediction_is_the_average_of_the_last_two_runs() {
        let mut predictor = RuntimePredictor::new();
        assert_eq!(predictor.predict("a/llm"), None);
        let expected = [(100, 100), (300, 200), (500, 400), (100, 300)];
        for (ran, next) in expected {
            predictor.observe("a/llm", &queue(), seconds(ran));
            assert_eq!(predictor.predict("a/llm"), Some(seconds(next)));
        }
        assert_eq!(predictor.predict("b/llm"), None);
    }

    #[test]
    fn queue_prediction_is_the_ninetieth_percentile_rounded_up() {
        let mut predictor = RuntimePredictor::new();
        let mut observe = |ran| predictor.observe("a/llm", &queue(), seconds(ran));
        let changes: Vec<_> = (1..=9).map(|_| observe(100)).collect();
        assert_eq!(changes, [false; 9]);
        // Nine runs take 100 s, and one takes a day.
        assert!(observe(86_400));
        assert_eq!(predictor.predict_for_queue(&queue()), Some(seconds(300)));
        // Two runs in eleven are longer.
        assert!(predictor.observe("b/other", &queue(), seconds(86_400)));
        assert_eq!(
            predictor.predict_for_queue(&queue()),
            Some(seconds(50 * HOUR))
        );
        // A hundred later runs replace the earlier runs.
        for _ in 0..MAX_RUNS_PER_QUEUE {
            predictor.observe("a/llm", &queue(), seconds(60));
        }
        assert_eq!(predictor.predict_for_queue(&queue()), Some(seconds(60)));
        assert_eq!(predictor.predict_for_queue(&QueueName::new("other")), None);
        predictor.forget_queue(&queue());
        assert_eq!(predictor.predict_for_queue(&queue()), None);
    }

    #[test]
    fn key_that_ran_longest_ago_is_forgotten_first() {
        let mut predictor = RuntimePredictor::new();
        for n in 0..=MAX_RUN_KEYS {
            predictor.observe(&format!("a/{n}"), &queue(), seconds(1));
            predictor.observe("a/again", &queue(), seconds(1));
        }
        let known = |who| predictor.predict(who).is_some();
        assert!(!known("a/0") && known("a/again") && known("a/2"));
        assert_eq!(predictor.runs.len(), MAX_RUN_KEYS);
        assert_eq!(predictor.keys_by_last_use.len(), MAX_RUN_KEYS);
    }

    #[test]
    fn exceeded_prediction_grows_step_by_step() {
        let of = |ran| correct_prediction(seconds(100), seconds(ran)).as_secs();
        assert_eq!(of(99), 100);
        assert_eq!(of(100), 100);
        assert_eq!(of(101), 160);
        assert_eq!(of(161), 160 + 300);
        assert_eq!(of(461), 460 + 900);
        // After all steps, the prediction grows by 100 hours each time.
        let ladder: u64 = GROWTH_STEPS.iter().sum();
        assert_eq!(of(100 + ladder), 100 + ladder);
        assert_eq!(of(101 + ladder), 100 + ladder + 360_000);
        assert_eq!(of(100 + ladder + 720_000), 100 + ladder + 720_000);
        let forever = correct_prediction(Duration::MAX, Duration::MAX);
        assert_eq!(forever, Duration::MAX);
    }

    #[test]
    fn endless_run_does_not_overflow() {
        let mut predictor = RuntimePredictor::new();
        predictor.observe("a", &queue(), Duration::MAX);
        predictor.observe("a", &queue(), Duration::MAX);
        assert_eq!(predictor.predict("a"), Duration::MAX.checked_div(2));
    }
}
