//! RuntimeProfiles, as the watch shows them: checked and hashed once, and shared
//! by all jobs that are compiled with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::ObjectMeta;
use parking_lot::RwLock;
use trellis_api::runtime_profile::RuntimeProfileStatus;
use trellis_api::{RuntimeProfile, TrainingJob, ValidatedProfile};
use trellis_compiler::Profile;

use super::Watched;
use crate::key::Key;
use crate::watch::{Sink, Undecodable};

/// A profile, or why jobs cannot be compiled with it.
#[derive(Clone, Debug)]
pub struct KnownProfile {
    /// The object, as far as whoever writes its status needs it. None: it cannot be read.
    pub meta: Option<ObjectMeta>,
    /// What is said of it.
    pub status: RuntimeProfileStatus,
    uid: String,
    /// It is that of jobs that name none.
    pub is_default: bool,
    /// The profile, or what is wrong with it.
    pub profile: Result<Arc<Profile>, String>,
}

impl From<RuntimeProfile> for KnownProfile {
    fn from(object: RuntimeProfile) -> Self {
        let meta = &object.metadata;
        Self {
            meta: Some(ObjectMeta {
                uid: meta.uid.clone(),
                generation: meta.generation,
                resource_version: meta.resource_version.clone(),
                ..ObjectMeta::default()
            }),
            status: object.status.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            is_default: object.spec.is_default(),
            profile: ValidatedProfile::try_from(object)
                .map(|valid| Arc::new(Profile::new(valid)))
                .map_err(|violations| violations.to_string()),
        }
    }
}

/// All profiles, by name.
#[derive(Debug, Default)]
pub struct Profiles(RwLock<BTreeMap<String, KnownProfile>>);

impl Profiles {
    /// The profile of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<KnownProfile> {
        self.0.read().get(name).cloned()
    }

    /// Every profile.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, KnownProfile> {
        self.0.read().clone()
    }

    /// Those that are the cluster's default: one, or too many.
    #[must_use]
    pub fn defaults(&self) -> BTreeMap<String, KnownProfile> {
        let all = self.0.read();
        let defaults = all.iter().filter(|(_, known)| known.is_default);
        defaults
            .map(|(name, known)| (name.clone(), known.clone()))
            .collect()
    }

    /// The profile of that name is there, new or changed. False: it is as it was.
    pub fn take(&self, name: &str, profile: KnownProfile) -> bool {
        let read = |known: &KnownProfile| {
            let hash = known.profile.as_ref().map(|p| p.hash().to_owned());
            (known.is_default, hash.map_err(Clone::clone))
        };
        let now = read(&profile);
        let before = self.0.write().insert(name.to_owned(), profile);
        before.is_none_or(|before| read(&before) != now)
    }

    /// Adds those of others; where both have one, the others' stands.
    pub fn overlay(&mut self, others: Self) {
        self.0.get_mut().extend(others.0.into_inner());
    }

    /// The profile of that uid is gone.
    pub fn remove(&self, name: &str, uid: &str) {
        let mut all = self.0.write();
        if all.get(name).is_some_and(|known| known.uid == uid) {
            all.remove(name);
        }
    }
}

impl Watched {
    /// Jobs that name it look again, and those that name none: it may be, or have
    /// been, theirs.
    fn profile_changed(&self, name: &str) {
        let is_concerned = |job: &TrainingJob| {
            let named = job.spec.profile.as_deref();
            named.is_none_or(|named| named == name)
        };
        self.world.look_again_at(is_concerned);
    }
}

impl Sink<RuntimeProfile> for Watched {
    fn apply(&self, key: Key, object: RuntimeProfile) {
        if self.world.profiles.take(&key.name, object.into()) {
            self.profile_changed(&key.name);
        }
    }

    /// Nobody knows whether it is the default: it is as it was last, and taken for one where
    /// nobody knows that either, so that jobs which name none wait.
    fn undecodable(&self, key: &Key, object: Undecodable) {
        let before = self.world.profiles.get(&key.name);
        let known = KnownProfile {
            meta: None,
            status: RuntimeProfileStatus::default(),
            uid: object.uid,
            is_default: before.is_none_or(|before| before.is_default),
            profile: Err(format!("it cannot be read: {}", object.error)),
        };
        if self.world.profiles.take(&key.name, known) {
            self.profile_changed(&key.name);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.profiles.remove(&key.name, uid);
        self.profile_changed(&key.name);
    }

    fn synced(&self) {
        self.listed();
    }
}
