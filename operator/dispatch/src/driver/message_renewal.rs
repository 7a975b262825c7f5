//! Renews the numbers in the messages of waiting jobs, a few jobs at a time: a changed number in
//! ten thousand messages must not cost ten thousand writes at once.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use tokio::time::Instant;
use trellis_gang::key::Key;
use trellis_gang::{GangExplanation, engine};
use trellis_machine::clock;

use super::Driver;

/// How often messages are renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);

/// Messages renewed at a time, which makes 96 a minute.
const MAX_RENEWED_AT_ONCE: usize = 16;

/// The message to renew next.
#[derive(Debug, Default)]
pub(super) struct MessageRenewal {
    due: Option<Instant>,
    last: Option<Key>,
}

impl MessageRenewal {
    fn pause(&self, now: Instant) -> Duration {
        let due = self.due.unwrap_or(now);
        due.saturating_duration_since(now)
    }

    /// Returns the jobs whose messages to renew now: all waiting jobs take turns.
    fn take_due(&mut self, now: Instant, waiting: &BTreeMap<Key, GangExplanation>) -> Vec<Key> {
        if self.due.is_some_and(|due| now < due) || waiting.is_empty() {
            return Vec::new();
        }
        self.due = now.checked_add(RENEWAL_INTERVAL);
        let after = self.last.as_ref().map_or(Unbounded, Excluded);
        let following = waiting.range((after, Unbounded)).map(|(job, _)| job);
        let from_the_start = waiting.keys();
        let turn = following
            .chain(from_the_start)
            .take(MAX_RENEWED_AT_ONCE.min(waiting.len()));
        let jobs: Vec<Key> = turn.cloned().collect();
        self.last = jobs.last().cloned();
        jobs
    }
}

impl Driver {
    /// Returns the time until the next renewal, if any job waits.
    pub(super) fn renewal_pause(&self) -> Option<Duration> {
        let waits = !self.committer.context().explanations.read().is_empty();
        waits.then(|| self.renewal.pause(Instant::now()))
    }

    /// Renews the messages of some jobs, if the reason is the same and its numbers have changed.
    pub(super) fn renew_messages(&mut self) {
        let context = self.committer.context().clone();
        let jobs = self
            .renewal
            .take_due(Instant::now(), &context.explanations.read());
        let now = engine::to_engine_time(clock::now());
        for job in jobs {
            let pace = self.gangs.get(&job).map(|state| &state.reason_pace);
            if pace.is_some_and(|pace| !pace.is_idle(Instant::now())) {
                continue;
            }
            let id = engine::gang_id(&job);
            let Some(refusal) = self.engine.explain(&id, now) else {
                continue;
            };
            let renewed = GangExplanation {
                only_numbers_changed: true,
                ..self.explain_refusal(&id, &refusal)
            };
            let mut explanations = context.explanations.write();
            let Some(shown) = explanations.get_mut(&job) else {
                continue;
            };
            // The engine itself reports a changed reason.
            let is_written = shown.only_numbers_changed && renewed.message == shown.message;
            if renewed.has_same_reason(shown) && !is_written {
                *shown = renewed;
                drop(explanations);
                context.work_queue.add(job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trellis_api::Reason;
    use trellis_scheduler::{
        Gang, GroupName, Node, NodeName, Queue, QueueName, Resources, TaskGroup,
    };

    use super::*;

    fn waiting_jobs(jobs: usize) -> BTreeMap<Key, GangExplanation> {
        let explanation =
            GangExplanation::waiting(Reason::InsufficientCapacity, "2 are free".into());
        (0..jobs)
            .map(|job| {
                (
                    Key::new("team-a", &format!("{job:03}")),
                    explanation.clone(),
                )
            })
            .collect()
    }

    #[test]
    fn waiting_jobs_are_renewed_in_turn_at_a_bounded_rate() {
        let (mut renewal, waiting) = (MessageRenewal::default(), waiting_jobs(40));
        let start = Instant::now();
        let mut renewed_jobs = Vec::new();
        for second in 0..60 {
            renewed_jobs.extend(renewal.take_due(start + Duration::from_secs(second), &waiting));
        }
        assert_eq!(renewed_jobs.len(), 6 * MAX_RENEWED_AT_ONCE);
        let turns = waiting.keys().cycle().take(renewed_jobs.len());
        assert_eq!(renewed_jobs, turns.cloned().collect::<Vec<_>>());
    }

    fn node(name: &str, gpus: i64) -> Node {
        let offers = Resources::new().with("nvidia.com/gpu", gpus);
        Node::new(NodeName::new(name), offers.with("pods", 110))
    }

    /// The reason stays the same, so the engine does not report it again.
    #[tokio::test(start_paused = true)]
    async fn message_numbers_are_renewed_while_the_reason_is_unchanged() {
        let mut driver = super::super::tests::driver();
        let context = driver.committer.context().clone();
        let job = Key::new("team-a", "llm");
        driver
            .engine
            .apply_queue(Queue::new(QueueName::new("default")));
        driver.engine.apply_node(node("n0", 2));
        let request = Resources::new().with("nvidia.com/gpu", 1);
        let worker = TaskGroup::new(GroupName::new("worker"), 8, request, "llm-worker".into());
        let queue = QueueName::new("default");
        let waiting_gang = Gang::new(engine::gang_id(&job), queue, vec![worker]);
        driver.engine.apply_gang(waiting_gang);
        let message = || context.explanations.read()[&job].message.clone();
        driver.decide();
        driver.renew_messages();
        assert!(message().contains("2 "), "{}", message());
        assert_eq!(context.work_queue.next().await, job);
        context.work_queue.mark_done(&job);
        let before = message();

        driver.engine.apply_node(node("n1", 3));
        driver.decide();
        driver.renew_messages();
        assert_eq!(message(), before, "the interval has not passed");
        assert_eq!(driver.next_pause(), RENEWAL_INTERVAL);
        tokio::time::advance(RENEWAL_INTERVAL).await;
        driver.decide();
        driver.renew_messages();
        assert!(message().contains("5 "), "{}", message());
        assert_eq!(context.work_queue.next().await, job);
    }

    #[test]
    fn few_jobs_are_renewed_once_per_interval() {
        let mut renewal = MessageRenewal::default();
        let start = Instant::now();
        assert_eq!(renewal.take_due(start, &waiting_jobs(3)).len(), 3);
        assert_eq!(
            renewal
                .take_due(start + RENEWAL_INTERVAL, &waiting_jobs(3))
                .len(),
            3
        );
        assert!(
            renewal
                .take_due(start + RENEWAL_INTERVAL * 2, &waiting_jobs(0))
                .is_empty()
        );
    }
}
