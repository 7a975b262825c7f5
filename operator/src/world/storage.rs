//! Claims, volumes and their classes, as the watches show them. Each change is
//! told to the jobs that mount the claim.

use trellis_api::TrainingJob;
use trellis_compiler::Profile;

use super::Watched;
use crate::controller::{claims, lookup};
use crate::key::Key;
use crate::watch::{Sink, SlimClaim, SlimStorageClass, SlimVolume};

impl Watched {
    /// The claims that a job's pods mount.
    fn claims_of(&self, job: &TrainingJob) -> Vec<(String, String)> {
        let profile = lookup::profile(&job.spec, &self.world.profiles);
        let profile = profile.ok().flatten();
        claims::mounted(&job.spec, profile.as_deref().map(Profile::spec))
    }

    fn claim_changed(&self, key: &Key) {
        self.world.look_again_at(|job| {
            job.metadata.namespace.as_deref() == Some(&*key.namespace)
                && self
                    .claims_of(job)
                    .iter()
                    .any(|(_, claim)| *claim == *key.name)
        });
    }

    fn volume_changed(&self, volume: Option<&SlimVolume>) {
        if let Some(claim) = volume.and_then(|v| v.spec.claim_ref.as_ref()) {
            self.claim_changed(&Key::new(&claim.namespace, &claim.name));
        }
    }

    /// Only the words change by which an unbound claim is told of.
    fn class_changed(&self) {
        self.world
            .look_again_at(|job| !self.claims_of(job).is_empty());
    }
}

impl Sink<SlimClaim> for Watched {
    fn apply(&self, key: Key, object: SlimClaim) {
        let before = self.world.claims.get(&key);
        let changed = before.is_none_or(|before| !before.is_like(&object));
        self.world.claims.observed(key.clone(), object);
        if changed {
            self.claim_changed(&key);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.claims.deleted(key, uid);
        self.claim_changed(key);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimVolume> for Watched {
    fn apply(&self, key: Key, object: SlimVolume) {
        let before = self.world.volumes.get(&key);
        let changed = before.is_none_or(|before| !before.is_like(&object));
        self.world.volumes.observed(key.clone(), object);
        if changed {
            self.volume_changed(self.world.volumes.get(&key).as_deref());
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let before = self.world.volumes.get(key);
        self.world.volumes.deleted(key, uid);
        self.volume_changed(before.as_deref());
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimStorageClass> for Watched {
    fn apply(&self, key: Key, object: SlimStorageClass) {
        let before = self.world.storage_classes.get(&key);
        let mode = |c: &SlimStorageClass| c.volume_binding_mode.clone();
        let changed = before.is_none_or(|before| mode(&before) != mode(&object));
        self.world.storage_classes.observed(key, object);
        if changed {
            self.class_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.storage_classes.deleted(key, uid);
        self.class_changed();
    }

    fn synced(&self) {
        self.listed();
    }
}
