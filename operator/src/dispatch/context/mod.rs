//! What the tasks of one operator share, and who is told of what the watches show.

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

use crate::cache::watch::Pulse;
use crate::cache::{Cache, WATCHES};
use crate::dispatch::Counts;
use crate::dispatch::WorkQueue;
use crate::dispatch::turns::Turns;
use crate::dispatch::{self, Feed, Heard, Tell};
use crate::gang::key::Key;
use crate::gang::observed::Unhealthy;
use crate::gang::{Certificate, external};

/// What the tasks of one operator share: the cache, and the ways to each other.
#[derive(Debug)]
pub struct Context {
    /// What the watches have shown of the cluster.
    pub cache: Arc<Cache>,
    /// Turns at evaluating policies.
    pub turns: Turns,
    /// Why gangs wait, by job.
    pub certificates: RwLock<BTreeMap<Key, Certificate>>,
    /// Jobs that are to be reconciled.
    pub work: WorkQueue,
    /// What happens, counted.
    pub counts: Counts,
    /// When the scheduler last began to look at its news.
    pub scheduler: Pulse,
    /// What the scheduler is to hear.
    pub feed: Tell,
}

impl Context {
    /// A context with an empty cache, and what the scheduler is to hear.
    #[must_use]
    pub fn new() -> (Arc<Self>, Heard) {
        Self::with(Unhealthy::default())
    }

    /// The same, with rules by which nodes are unhealthy.
    #[must_use]
    pub fn with(unhealthy: Unhealthy) -> (Arc<Self>, Heard) {
        Self::of(unhealthy, WATCHES)
    }

    /// The same, with the number of kinds that are watched beside policies.
    #[must_use]
    pub fn of(unhealthy: Unhealthy, watches: usize) -> (Arc<Self>, Heard) {
        let (feed, heard) = dispatch::channel();
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

    /// Tells the scheduler.
    pub fn tell(&self, feed: Feed) {
        self.feed.send(feed);
    }

    /// A job changed, or something that belongs to it: both look at it.
    ///
    /// Of external pods the scheduler alone does: they have no job.
    pub fn touch(&self, job: Key) {
        self.tell(Feed::Look(job.clone()));
        if !external::is_external(&job) {
            self.work.add(job);
        }
    }

    /// The jobs of which this holds are looked at again: something that they
    /// depend on changed. Before everything is listed nobody has looked at any.
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
pub struct Watched {
    context: Arc<Context>,
    listed: AtomicBool,
}

impl Watched {
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
