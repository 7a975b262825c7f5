//! RuntimeProfiles, and the jobs that are compiled with them.

use trellis_api::runtime_profile::RuntimeProfileStatus;
use trellis_api::{RuntimeProfile, TrainingJob};
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;
use trellis_gang::lookup::CachedProfile;

use super::WatchSink;

impl WatchSink {
    /// Reconciles the jobs that name the profile. Also reconciles the jobs that name none, because
    /// the profile may be, or have been, the default.
    fn profile_changed(&self, name: &str) {
        let is_concerned = |job: &TrainingJob| {
            let named = job.spec.profile.as_deref();
            named.is_none_or(|named| named == name)
        };
        self.context.requeue_jobs(is_concerned);
    }
}

impl Sink<RuntimeProfile> for WatchSink {
    fn apply(&self, key: Key, object: RuntimeProfile) {
        if self.context.cache.profiles.insert(&key.name, object.into()) {
            self.profile_changed(&key.name);
        }
    }

    /// An undecodable profile may or may not be the default. It keeps its last known setting.
    /// Without one it counts as the default, so that jobs without a profile wait.
    fn undecodable(&self, key: &Key, object: Undecodable) {
        let before = self.context.cache.profiles.get(&key.name);
        let known = CachedProfile {
            meta: None,
            status: RuntimeProfileStatus::default(),
            uid: object.uid,
            is_default: before.is_none_or(|before| before.is_default),
            profile: Err(format!("it cannot be read: {}", object.error)),
        };
        if self.context.cache.profiles.insert(&key.name, known) {
            self.profile_changed(&key.name);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.profiles.remove(&key.name, uid);
        self.profile_changed(&key.name);
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
