//! State that all tasks of the operator share, and the routing of watch events.

mod children;
mod daemon_sets;
mod device_classes;
mod external_pods;
mod external_secrets;
mod jobs;
mod nodes;
mod policies;
mod profiles;
mod stamping;
mod storage;
mod surroundings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Resource;
use parking_lot::RwLock;
use trellis_api::TrainingJob;
use trellis_cache::watch::Pulse;
use trellis_cache::{Cache, WATCHES};
use trellis_gang::key::Key;
use trellis_gang::observed::Unhealthy;
use trellis_gang::{Certificate, external};

use crate::turns::Turns;
use crate::{Counts, Feed, Heard, Tell, WorkQueue};

/// State that all tasks of the operator share.
#[derive(Debug)]
pub struct Context {
    /// Objects of the cluster as the watches have shown them.
    pub cache: Arc<Cache>,
    /// Limits how many policy evaluations run at once.
    pub turns: Turns,
    /// Why gangs wait, by job.
    pub certificates: RwLock<BTreeMap<Key, Certificate>>,
    /// Jobs to reconcile.
    pub work: WorkQueue,
    /// Metrics of what happens.
    pub counts: Counts,
    /// When the scheduler last began to work on its events.
    pub scheduler: Pulse,
    /// Sends events to the scheduler.
    pub feed: Tell,
}

impl Context {
    /// A context with an empty cache, and the receiver of the scheduler's events.
    #[must_use]
    pub fn new() -> (Arc<Self>, Heard) {
        Self::with(Unhealthy::default())
    }

    /// The same, with the rules that declare nodes unhealthy.
    #[must_use]
    pub fn with(unhealthy: Unhealthy) -> (Arc<Self>, Heard) {
        Self::of(unhealthy, WATCHES)
    }

    /// The same, with the number of watched kinds beside policies.
    #[must_use]
    pub fn of(unhealthy: Unhealthy, watches: usize) -> (Arc<Self>, Heard) {
        let (feed, heard) = crate::channel();
        let context = Self {
            cache: Arc::new(Cache::new(unhealthy, watches)),
            turns: Turns::default(),
            certificates: RwLock::default(),
            work: WorkQueue::default(),
            counts: Counts::default(),
            scheduler: Pulse::default(),
            feed,
        };
        (Arc::new(context), heard)
    }

    /// Sends an event to the scheduler.
    pub fn tell(&self, feed: Feed) {
        self.feed.send(feed);
    }

    /// Has the scheduler and the controller look at a job that changed, or whose children changed.
    ///
    /// External pods have no job, so only the scheduler looks at them.
    pub fn touch(&self, job: Key) {
        self.tell(Feed::Look(job.clone()));
        if !external::is_external(&job) {
            self.work.add(job);
        }
    }

    /// Has the controller reconcile the jobs for which this holds, because something that they
    /// depend on has changed. Before everything is listed no job has been reconciled, so none has
    /// to be again.
    fn look_again_at(&self, which: impl Fn(&TrainingJob) -> bool) {
        if !self.cache.is_synced() {
            return;
        }
        for job in self.cache.jobs.all() {
            if which(&job) {
                self.work.add(Key::of(job.meta()));
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
    /// A sink into the context's cache.
    #[must_use]
    pub fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            listed: AtomicBool::new(false),
        })
    }

    fn listed(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.context.cache.one_synced();
        }
    }
}
