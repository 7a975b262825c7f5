//! State that all tasks of the operator share, and the routing of watch events.

mod children;
mod daemon_sets;
mod dependencies;
mod device_classes;
mod evaluation_turn;
mod external_pods;
mod external_secrets;
mod jobs;
mod nodes;
mod policies;
mod profiles;
mod stamping;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Resource;
use parking_lot::RwLock;
use trellis_api::TrainingJob;
use trellis_cache::Cache;
use trellis_cache::watch::Pulse;
use trellis_gang::key::Key;
use trellis_gang::observed::UnhealthyRules;
use trellis_gang::{EndedAttempts, GangExplanation, external};
use trellis_machine::clock;

use crate::evaluation_turns::EvaluationTurns;
use crate::node_orders::NodeOrders;
use crate::{EventReceiver, EventSender, OperatorMetrics, SchedulerEvent, WorkQueue};

/// State that all tasks of the operator share.
#[derive(Debug)]
pub struct Context {
    /// Objects of the cluster as the watches have shown them.
    pub cache: Arc<Cache>,
    /// Limits how many policy evaluations run at once.
    pub evaluation_turns: EvaluationTurns,
    /// Why gangs wait, by job.
    pub explanations: RwLock<BTreeMap<Key, GangExplanation>>,
    /// Attempts of jobs that have ended while this process leads.
    pub ended_attempts: RwLock<EndedAttempts>,
    /// Jobs to reconcile.
    pub work_queue: WorkQueue,
    /// Metrics of the operator's work.
    pub metrics: OperatorMetrics,
    /// When the scheduler last began to handle its events.
    pub scheduler_pulse: Pulse,
    /// Orders of new nodes.
    pub node_orders: NodeOrders,
    /// Sends events to the scheduler.
    pub events: EventSender,
}

impl Context {
    /// Returns a context with an empty cache, and the receiver of the scheduler's events.
    #[must_use]
    pub fn new() -> (Arc<Self>, EventReceiver) {
        Self::with_settings(UnhealthyRules::default(), None)
    }

    /// Returns the same context, with the rules that declare nodes unhealthy, and the namespace of
    /// placeholder pods. None: nodes are not provisioned.
    #[must_use]
    pub fn with_settings(
        unhealthy: UnhealthyRules,
        placeholder_namespace: Option<String>,
    ) -> (Arc<Self>, EventReceiver) {
        let (sender, receiver) = crate::event_channel();
        let context = Self {
            cache: Arc::new(Cache::new(unhealthy)),
            evaluation_turns: EvaluationTurns::default(),
            explanations: RwLock::default(),
            ended_attempts: RwLock::default(),
            work_queue: WorkQueue::default(),
            metrics: OperatorMetrics::default(),
            scheduler_pulse: Pulse::default(),
            node_orders: NodeOrders::new(placeholder_namespace),
            events: sender,
        };
        (Arc::new(context), receiver)
    }

    /// Sends an event to the scheduler.
    pub fn send_event(&self, event: SchedulerEvent) {
        self.events.send(event);
    }

    /// Wakes the scheduler and the controller for a job that changed, or whose children changed.
    ///
    /// External pods have no job, so this wakes only the scheduler for them.
    pub fn touch(&self, job: Key) {
        self.send_event(SchedulerEvent::Recheck(job.clone()));
        if !external::is_external(&job) {
            self.work_queue.add(job);
        }
    }

    /// Records the attempt that a change of a job has ended, if it has ended one. None: the job did
    /// not exist before, or is deleted.
    pub fn record_job_change(&self, before: Option<&TrainingJob>, after: Option<&TrainingJob>) {
        self.ended_attempts
            .write()
            .record(before, after, clock::now());
    }

    /// Makes the controller reconcile the jobs for which `which` returns true, because an object
    /// that they depend on has changed. Before all kinds are listed, no job has been reconciled, so
    /// this does nothing.
    fn requeue_jobs(&self, which: impl Fn(&TrainingJob) -> bool) {
        if !self.cache.is_synced() {
            return;
        }
        for job in self.cache.jobs.all() {
            if which(&job) {
                self.work_queue.add(Key::from_meta(job.meta()));
            }
        }
    }
}

/// A sink that marks its kind as synced after the first list.
#[derive(Debug)]
pub struct WatchSink {
    context: Arc<Context>,
    listed: AtomicBool,
}

impl WatchSink {
    /// Returns a sink into the context's cache.
    #[must_use]
    pub fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            listed: AtomicBool::new(false),
        })
    }

    fn mark_listed(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.context.cache.mark_kind_synced();
        }
    }
}
