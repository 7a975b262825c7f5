//! Queue of keys to reconcile. Each key runs at most once at a time, and has its own back-off.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_gang::key::Key;

const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// How long an empty queue sleeps without an event.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// The work queue. A key that is added during its reconciliation is handed out again afterwards. So
/// no change is lost, and no key runs twice at once.
#[derive(Debug, Default)]
pub struct WorkQueue {
    state: Mutex<WorkQueueState>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct WorkQueueState {
    /// Keys that wait, in the order in which they are due.
    waiting: BTreeSet<(Instant, Key)>,
    /// When each waiting key is due, and each running key is due again.
    due: HashMap<Key, Instant>,
    /// When the work on each running key began.
    working: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
}

impl WorkQueueState {
    fn schedule(&mut self, key: Key, due: Instant) {
        let before = self.due.get(&key).copied();
        if before.is_some_and(|b| b <= due) {
            return;
        }
        self.due.insert(key.clone(), due);
        if !self.working.contains_key(&key) {
            if let Some(before) = before {
                self.waiting.remove(&(before, key.clone()));
            }
            self.waiting.insert((due, key));
        }
    }

    fn take_due(&mut self, now: Instant) -> Option<Key> {
        if self.waiting.first().is_none_or(|(due, _)| *due > now) {
            return None;
        }
        let (_, key) = self.waiting.pop_first()?;
        self.due.remove(&key);
        self.working.insert(key.clone(), now);
        Some(key)
    }

    fn end_work(&mut self, key: &Key) {
        self.working.remove(key);
        if let Some(due) = self.due.get(key) {
            self.waiting.insert((*due, key.clone()));
        }
    }
}

impl WorkQueue {
    /// Makes the key due now.
    pub fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    /// Makes the key due after `delay`, or earlier if another caller asks for that.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let now = Instant::now();
        self.state
            .lock()
            .schedule(key, now.checked_add(delay).unwrap_or(now));
        self.wake.notify_one();
    }

    /// Waits for the next key that is due and not running, and returns it. Only one caller at a
    /// time may wait.
    pub async fn next(&self) -> Key {
        loop {
            let pause = {
                let mut inner = self.state.lock();
                let now = Instant::now();
                if let Some(key) = inner.take_due(now) {
                    return key;
                }
                inner
                    .waiting
                    .first()
                    .map_or(MAX_IDLE, |(due, _)| due.saturating_duration_since(now))
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns the work on a key that was handed out.
    pub fn work_on<'a>(&'a self, key: &'a Key) -> Work<'a> {
        Work {
            queue: self,
            key,
            has_result: false,
        }
    }

    /// Returns the number of due keys, and how long the longest running work has taken.
    #[must_use]
    pub fn load(&self) -> (usize, Option<Duration>) {
        let inner = self.state.lock();
        let now = Instant::now();
        let due = inner.waiting.iter().take_while(|(due, _)| *due <= now);
        let oldest = inner.working.values().min();
        let oldest = oldest.map(|since| now.saturating_duration_since(*since));
        (due.count(), oldest)
    }

    /// Records that the work on a key has succeeded.
    pub(crate) fn mark_done(&self, key: &Key) {
        {
            let mut inner = self.state.lock();
            inner.end_work(key);
            inner.failures.remove(key);
        }
        self.wake.notify_one();
    }

    /// Returns true if the work on a key has failed the last time.
    #[must_use]
    pub fn has_failed(&self, key: &Key) -> bool {
        self.state.lock().failures.contains_key(key)
    }

    /// Records that the work on a key has failed. The pause before the next try grows each time.
    pub(crate) fn mark_failed(&self, key: &Key) -> Duration {
        let delay = {
            let mut inner = self.state.lock();
            inner.end_work(key);
            let failures = inner.failures.entry(key.clone()).or_default();
            let delay = FIRST_BACKOFF
                .saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX))
                .min(LONGEST_BACKOFF);
            *failures = failures.saturating_add(1).min(16);
            delay
        };
        self.add_after(key.clone(), delay);
        delay
    }
}

/// Work on a key. Dropping it without a result, as a panic does, counts as a failure. Otherwise the
/// queue would never hand the key out again.
#[derive(Debug)]
pub struct Work<'a> {
    queue: &'a WorkQueue,
    key: &'a Key,
    has_result: bool,
}

impl Work<'_> {
    /// Records that the work has succeeded.
    pub fn succeed(mut self) {
        self.has_result = true;
        self.queue.mark_done(self.key);
    }

    /// Records that the work has failed. Returns the time until the next try.
    #[must_use]
    pub fn fail(mut self) -> Duration {
        self.has_result = true;
        self.queue.mark_failed(self.key)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            self.queue.mark_failed(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_is_worked_on_once_at_a_time_and_never_lost() {
        let queue = WorkQueue::default();
        let key = Key::new("ns", "a");
        queue.add(key.clone());
        queue.add(key.clone());
        assert_eq!(queue.next().await, key);
        queue.add(key.clone());
        let early = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(early.is_err(), "handed out twice");
        queue.mark_done(&key);
        assert_eq!(queue.next().await, key);
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_due_at_the_earliest_requested_time() {
        let queue = Arc::new(WorkQueue::default());
        let key = Key::new("ns", "a");
        queue.add_after(key.clone(), Duration::from_secs(60));
        let start = Instant::now();
        let other = queue.clone();
        let again = key.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            other.add(again);
        });
        assert_eq!(queue.next().await, key);
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn panicked_work_is_retried() {
        let queue = Arc::new(WorkQueue::default());
        queue.add(Key::new("ns", "a"));
        let key = queue.next().await;
        let (other, again) = (queue.clone(), key.clone());
        let work = tokio::spawn(async move {
            let _work = other.work_on(&again);
            panic!("out of range");
        });
        assert!(work.await.unwrap_err().is_panic());
        let start = Instant::now();
        let next = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert_eq!(next.unwrap(), key);
        assert!(start.elapsed() >= FIRST_BACKOFF);
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_on_failure_and_resets_on_success() {
        let queue = WorkQueue::default();
        let key = Key::new("ns", "a");
        queue.add(key.clone());
        let mut delays = Vec::new();
        for _ in 0..12 {
            queue.next().await;
            delays.push(queue.mark_failed(&key));
        }
        assert_eq!(delays[0], FIRST_BACKOFF);
        assert_eq!(delays[1], FIRST_BACKOFF * 2);
        assert_eq!(delays[11], LONGEST_BACKOFF);
        queue.next().await;
        queue.mark_done(&key);
        queue.add(key.clone());
        queue.next().await;
        assert_eq!(queue.mark_failed(&key), FIRST_BACKOFF);
    }

    #[tokio::test(start_paused = true)]
    async fn queue_reports_due_keys_and_the_longest_running_work() {
        let queue = WorkQueue::default();
        let keys = ["a", "b", "c"].map(|name| Key::new("ns", name));
        let second = Duration::from_secs(1);
        assert_eq!(queue.load(), (0, None));
        for key in &keys {
            queue.add(key.clone());
        }
        queue.add_after(Key::new("ns", "later"), second * 60);
        assert_eq!(queue.load(), (3, None));
        let first = queue.next().await;
        tokio::time::advance(second * 5).await;
        let second_key = queue.next().await;
        tokio::time::advance(second * 2).await;
        assert_eq!(queue.load(), (1, Some(second * 7)));
        queue.mark_done(&first);
        assert_eq!(queue.load(), (1, Some(second * 2)));
        queue.mark_failed(&second_key);
        assert_eq!(queue.load().1, None);
    }
}
