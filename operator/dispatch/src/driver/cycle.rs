//! The scheduling cycle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_machine::clock;
use trellis_scheduler::QueueName;

use super::takeover::inheritance::ADOPTION_POLL_INTERVAL;
use super::{Driver, broken_watch};
use crate::SchedulerEvent;

/// Longest sleep without an event. Correctness does not depend on it.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(60);

impl Driver {
    /// Runs until the process ends. Starts once all kinds are listed.
    pub async fn run(mut self) {
        self.committer.cache().wait_synced().await;
        self.restore_state().await;
        let mut is_first = true;
        // The first cycle does not wait for events: the restore has handled some, such as requests for
        // a snapshot.
        let mut events = Vec::new();
        loop {
            self.run_cycle(events, &mut is_first);
            events = self.next_events().await;
        }
    }

    /// Handles the events, and decides. `is_first` is true until the first decision.
    fn run_cycle(&mut self, events: Vec<SchedulerEvent>, is_first: &mut bool) {
        let to_advance = self.advance_gangs(events);
        if self.awaits_adoption() {
            return;
        }
        if std::mem::replace(is_first, false) {
            self.restore_queue_usage();
        }
        if !self.is_watch_broken(&to_advance) {
            // Counts before deciding, so that a used-up limit is closed. Counts again after it,
            // so that started gangs use hours from now on.
            self.count_hours();
            self.decide();
            self.count_hours();
            self.renew_messages();
        }
        self.answer_snapshot_requests();
    }

    /// Restores the state of the cluster in the engine, and takes the first step of each gang.
    async fn restore_state(&mut self) {
        self.engine.advance(engine::to_engine_time(clock::now()));
        // Nodes, flavors and queues come first: running gangs are charged to the flavors of their
        // nodes.
        let mut to_advance = BTreeSet::new();
        for event in self.events.take_all() {
            self.handle_event(event, &mut to_advance);
        }
        self.resume_hours();
        self.take_over().await;
        for job in to_advance {
            self.advance(&job);
        }
        self.inheritance.start_adoption(Instant::now());
    }

    /// Waits for events, and returns all pending ones, so that no decision is based on half of a
    /// change. Empty if a cycle is due and no event has arrived.
    async fn next_events(&mut self) -> Vec<SchedulerEvent> {
        let pause = self.next_pause();
        let events = tokio::select! {
            events = self.events.next() => events,
            () = tokio::time::sleep(pause) => Vec::new(),
        };
        self.committer.context().scheduler_pulse.beat();
        events
    }

    /// Handles the events, and takes the next step of each gang that they or an alarm concern.
    fn advance_gangs(&mut self, events: Vec<SchedulerEvent>) -> BTreeSet<Key> {
        let mut to_advance = BTreeSet::new();
        for event in events {
            self.handle_event(event, &mut to_advance);
        }
        while let Some(job) = self.alarms.take_due(Instant::now()) {
            to_advance.insert(job);
        }
        for job in &to_advance {
            self.advance(job);
        }
        to_advance
    }

    /// Returns true while placed jobs are not adopted. Until then, no gang may be placed on their
    /// nodes.
    fn awaits_adoption(&mut self) -> bool {
        let context = self.committer.context();
        self.inheritance.blocks_decisions(Instant::now(), |job| {
            context.cache.jobs.get(job).is_some()
                && !context.evaluation_turns.is_slow(&job.namespace)
        })
    }

    /// Sends a snapshot to the callers that still wait.
    fn answer_snapshot_requests(&mut self) {
        self.snapshot_requests.retain(|caller| !caller.is_closed());
        if self.snapshot_requests.is_empty() {
            return;
        }
        let snapshot = Arc::new(self.engine.snapshot());
        for caller in self.snapshot_requests.drain(..) {
            let _ = caller.send(snapshot.clone());
        }
    }

    /// Restores the queues' past usage from their status, after running gangs are charged.
    fn restore_queue_usage(&mut self) {
        for queue in self.committer.cache().queues.all() {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            if let Some(memory) = queue
                .status
                .as_ref()
                .and_then(engine::restore_decayed_usage)
            {
                self.engine.restore_queue_memory(&name, &memory);
            }
        }
    }

    /// Returns the time until the next cycle if no event arrives before.
    pub(super) fn next_pause(&self) -> Duration {
        let longest = if self.inheritance.awaits_adoption() {
            ADOPTION_POLL_INTERVAL
        } else if self.broken_watch.is_some() {
            broken_watch::CHECK_INTERVAL
        } else {
            MAX_IDLE
        };
        let now = engine::to_engine_time(clock::now()).as_millis();
        let engine = self.engine.next_wakeup().map(|at| {
            let millis = at.as_millis().saturating_sub(now).saturating_add(1).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        });
        // The engine decides only once all jobs are adopted and all watches work.
        let decides = !self.inheritance.awaits_adoption() && self.broken_watch.is_none();
        let engine = engine.filter(|_| decides);
        let renewal = self.renewal_pause().filter(|_| decides);
        let alarm = self
            .alarms
            .next()
            .map(|at| at.saturating_duration_since(Instant::now()));
        [engine, alarm, self.hours_pause(), renewal]
            .into_iter()
            .flatten()
            .fold(longest, Duration::min)
    }
}
