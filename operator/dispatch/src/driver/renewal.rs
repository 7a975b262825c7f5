//! Renews the numbers in the messages of waiting jobs, a few jobs at a time: a number in ten
//! thousand messages must not cost ten thousand writes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, engine};

use super::Driver;

/// How often messages are renewed.
const EVERY: Duration = Duration::from_secs(10);

/// Messages that are renewed at a time: 96 a minute.
const AT_A_TIME: usize = 16;

/// The message to renew next.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    due: Option<Instant>,
    last: Option<Key>,
}

impl Renewal {
    fn pause(&self, now: Instant) -> Duration {
        let due = self.due.unwrap_or(now);
        due.saturating_duration_since(now)
    }

    /// The jobs whose messages to renew now: all waiting jobs take turns.
    fn take(&mut self, now: Instant, waiting: &BTreeMap<Key, Certificate>) -> Vec<Key> {
        if self.due.is_some_and(|due| now < due) || waiting.is_empty() {
            return Vec::new();
        }
        self.due = now.checked_add(EVERY);
        let after = self.last.as_ref().map_or(Unbounded, Excluded);
        let following = waiting.range((after, Unbounded)).map(|(job, _)| job);
        let from_the_start = waiting.keys();
        let turn = following
            .chain(from_the_start)
            .take(AT_A_TIME.min(waiting.len()));
        let jobs: Vec<Key> = turn.cloned().collect();
        self.last = jobs.last().cloned();
        jobs
    }
}

impl Driver {
    /// Time until the next renewal, if any job waits.
    pub(super) fn renewal_pause(&self) -> Option<Duration> {
        let waits = !self.committer.context().certificates.read().is_empty();
        waits.then(|| self.renewal.pause(Instant::now()))
    }

    /// Renews the messages of some jobs, if the reason is the same and its numbers have changed.
    pub(super) fn renew_messages(&mut self) {
        let context = self.committer.context().clone();
        let jobs = self
            .renewal
            .take(Instant::now(), &context.certificates.read());
        let now = engine::time(Timestamp::now());
        for job in jobs {
            let id = engine::id(&job);
            let Some(refusal) = self.engine.explain(&id, now) else {
                continue;
            };
            let renewed = Certificate {
                is_renewed: true,
                ..self.told(&id, &refusal)
            };
            let mut certificates = context.certificates.write();
            let Some(told) = certificates.get_mut(&job) else {
                continue;
            };
            // Another reason is reported by the engine, which knows when it has changed.
            let is_written = told.is_renewed && renewed.message == told.message;
            if renewed.has_reason_of(told) && !is_written {
                *told = renewed;
                drop(certificates);
                context.work.add(job);
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

    fn waiting(jobs: usize) -> BTreeMap<Key, Certificate> {
        let certificate = Certificate::waits(Reason::InsufficientCapacity, "2 are free".into());
        (0..jobs)
            .map(|job| {
                (
                    Key::new("team-a", &format!("{job:03}")),
                    certificate.clone(),
                )
            })
            .collect()
    }

    #[test]
    fn all_that_wait_take_turns_at_a_bounded_rate() {
        let (mut renewal, waiting) = (Renewal::default(), waiting(40));
        let start = Instant::now();
        let mut taken = Vec::new();
        for second in 0..60 {
            taken.extend(renewal.take(start + Duration::from_secs(second), &waiting));
        }
        assert_eq!(taken.len(), 6 * AT_A_TIME);
        let turns = waiting.keys().cycle().take(taken.len());
        assert_eq!(taken, turns.cloned().collect::<Vec<_>>());
    }

    fn node(name: &str, gpus: i64) -> Node {
        let offers = Resources::new().with("nvidia.com/gpu", gpus);
        Node::new(NodeName::new(name), offers.with("pods", 110))
    }

    /// The reason stays the same, so the engine does not report it again.
    #[tokio::test(start_paused = true)]
    async fn message_gets_the_numbers_of_now_though_the_reason_is_the_same() {
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
        let waits = Gang::new(engine::id(&job), queue, vec![worker]);
        driver.engine.apply_gang(waits);
        let told = || context.certificates.read()[&job].message.clone();
        driver.decide();
        driver.renew_messages();
        assert!(told().contains("2 "), "{}", told());
        assert_eq!(context.work.next().await, job);
        context.work.done(&job);
        let before = told();

        driver.engine.apply_node(node("n1", 3));
        driver.decide();
        driver.renew_messages();
        assert_eq!(told(), before, "too soon");
        assert_eq!(driver.pause(), EVERY);
        tokio::time::advance(EVERY).await;
        driver.decide();
        driver.renew_messages();
        assert!(told().contains("5 "), "{}", told());
        assert_eq!(context.work.next().await, job);
    }

    #[test]
    fn few_jobs_are_renewed_once_at_a_time() {
        let mut renewal = Renewal::default();
        let start = Instant::now();
        assert_eq!(renewal.take(start, &waiting(3)).len(), 3);
        assert_eq!(renewal.take(start + EVERY, &waiting(3)).len(), 3);
        assert!(renewal.take(start + EVERY * 2, &waiting(0)).is_empty());
    }
}
