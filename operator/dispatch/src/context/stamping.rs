//! The admission policies of the chart, as the watches show them: objects that write and protect
//! requester stamps, and policies that protect Trellis's objects from users.

use kube::Resource;
use tracing::{error, info, warn};
use trellis_cache::watch::Sink;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimAdmission;

use super::{Context, WatchSink};

impl Context {
    /// Logs whether requesters are known.
    pub fn log_stamping(&self) {
        let stamping = &self.cache.stamping;
        match (stamping.unknown_reason(), stamping.authentic_since()) {
            (Some(why), _) => warn!(%why, "who asks is not known: no job has a requester"),
            (None, Ok(since)) => info!(%since, "who asks is known, of jobs created since"),
            // All stamps are trusted.
            (None, Err(_)) => {}
        }
    }

    /// Logs whether Trellis's objects are protected from users.
    pub fn log_guards(&self) {
        match self.cache.guards.problem() {
            None => info!("the admission policies for what is Trellis' own are in force"),
            Some(why) => error!(%why, "an admission policy is not in force"),
        }
    }

    /// Handles a change of the guards. Before all kinds are listed, this logs nothing, and no stamp
    /// is trusted.
    fn guards_changed(&self) {
        if self.cache.is_synced() {
            self.log_guards();
        }
    }

    fn stamping_changed(&self) {
        // Before all kinds are listed, the state is unknown.
        if self.cache.is_synced() {
            self.log_stamping();
            self.requeue_jobs(|_| true);
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Sink<SlimAdmission<K>> for WatchSink {
    /// MutatingAdmissionPolicy is stable since Kubernetes 1.36.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, _: Key, object: SlimAdmission<K>) {
        let stamping = &self.context.cache.stamping;
        let kind = K::kind(&());
        if stamping.apply(&kind, &object.metadata, &object.spec) {
            self.context.stamping_changed();
        }
        let guards = &self.context.cache.guards;
        if guards.apply(&kind, &object.metadata, &object.spec) {
            self.context.guards_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let kind = K::kind(&());
        if self.context.cache.stamping.delete(&kind, &key.name, uid) {
            self.context.stamping_changed();
        }
        if self.context.cache.guards.delete(&kind, &key.name, uid) {
            self.context.guards_changed();
        }
    }

    fn synced(&self) {
        self.mark_listed();
    }

    fn kind_unknown(&self) {
        self.mark_listed();
    }
}
