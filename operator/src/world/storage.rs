//! Claims, volumes and their classes, as the watches and answers to our own writes show them. Each
//! change is told to the jobs and external pods that mount the claim, or that could have the
//! volume.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tokio::sync::futures::Notified;
use trellis_api::TrainingJob;
use trellis_compiler::Profile;

use super::{Watched, World};
use crate::controller::claims;
use crate::key::Key;
use crate::scheduling::binding::Storage;
use crate::watch::{Sink, SlimClaim, SlimStorageClass, SlimVolume, default_class};

/// The storage of a namespace, as the watches show it.
#[derive(Clone, Copy)]
pub struct StorageOf<'a> {
    world: &'a World,
    namespace: &'a str,
}

impl Storage for StorageOf<'_> {
    fn claim(&self, name: &str) -> Option<Arc<SlimClaim>> {
        self.world.claims.get(&Key::new(self.namespace, name))
    }

    fn volume(&self, name: &str) -> Option<Arc<SlimVolume>> {
        self.world.volumes.get(&Key::new("", name))
    }

    fn volumes(&self) -> Vec<Arc<SlimVolume>> {
        self.world.volumes.all()
    }

    fn class(&self, name: &str) -> Option<Arc<SlimStorageClass>> {
        self.world.storage_classes.get(&Key::new("", name))
    }

    fn default_class(&self) -> Option<Arc<SlimStorageClass>> {
        default_class(self.world.storage_classes.all())
    }

    fn node_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let node = self.world.nodes.get(&Key::new("", name))?;
        Some(node.metadata.labels.clone().unwrap_or_default())
    }
}

impl World {
    /// What is known of the storage of a namespace.
    #[must_use]
    pub fn storage<'a>(&'a self, namespace: &'a str) -> StorageOf<'a> {
        StorageOf {
            world: self,
            namespace,
        }
    }

    /// Ends when a claim or a volume changes after this call.
    pub fn storage_changes(&self) -> Notified<'_> {
        self.storage_changed.notified()
    }

    /// The answer to a change of ours of a claim.
    pub fn claim_answered(&self, key: &Key, claim: SlimClaim) {
        if self.claims.answered(key.clone(), claim) {
            let claim = self.claims.get(key);
            self.claim_changed(key, claim.as_ref().and_then(|claim| claim.pod()));
        }
    }

    /// The answer to a change of ours of a volume.
    pub fn volume_answered(&self, key: &Key, volume: SlimVolume) {
        let before = self.volumes.get(key);
        if self.volumes.answered(key.clone(), volume) {
            self.volume_changed([before.as_deref(), self.volumes.get(key).as_deref()]);
        }
    }

    /// The claims that a job's pods mount.
    pub(crate) fn claims_of(&self, job: &TrainingJob) -> BTreeSet<String> {
        let profile = self.profiles.of(&job.spec);
        let profile = profile.ok().flatten();
        claims::names(&job.spec, None, profile.as_deref().map(Profile::spec))
    }

    /// True if a claim comes with each pod of one of its groups.
    fn has_ephemeral(&self, job: &TrainingJob) -> bool {
        let profile = self.profiles.of(&job.spec);
        let profile = profile.ok().flatten();
        !claims::ephemeral(&job.spec, profile.as_deref()).is_empty()
    }

    /// `pod`: the one whose own it is.
    fn claim_changed(&self, key: &Key, pod: Option<&OwnerReference>) {
        self.storage_changed.notify_waiters();
        // Another than its owner may wait for the name.
        self.look_again_at_external_pods_with(
            |namespace| namespace == &*key.namespace,
            |claim| claim == key,
        );
        if let Some(pod) = pod {
            self.look_again_at_job_of(&Key::new(&key.namespace, &pod.name));
            return;
        }
        self.look_again_at(|job| {
            job.metadata.namespace.as_deref() == Some(&*key.namespace)
                && self.claims_of(job).contains(&*key.name)
        });
    }

    /// The one whose pod has a claim of its own.
    fn look_again_at_job_of(&self, pod: &Key) {
        if let Some(job) = self.pods.job_of(pod).filter(|_| self.is_synced()) {
            self.work.add(job);
        }
    }

    /// It is told to the jobs of the claims that it was given to before and after, and of those
    /// that it could be given to.
    fn volume_changed(&self, states: [Option<&SlimVolume>; 2]) {
        self.storage_changed.notify_waiters();
        let mut told: BTreeSet<Key> = BTreeSet::new();
        for volume in states.into_iter().flatten() {
            match &volume.spec.claim_ref {
                Some(claim) => {
                    told.insert(Key::new(&claim.namespace, &claim.name));
                }
                None => {
                    let claims = self.claims.all().into_iter();
                    let wait = claims.filter(|c| c.is_free() && c.class() == volume.class());
                    told.extend(wait.map(|claim| Key::of(&claim.metadata)));
                }
            }
        }
        if told.is_empty() {
            return;
        }
        for key in &told {
            let claim = self.claims.get(key);
            if let Some(pod) = claim.as_ref().and_then(|claim| claim.pod()) {
                self.look_again_at_job_of(&Key::new(&key.namespace, &pod.name));
            }
        }
        // Most are of other namespaces: what they mount need not be read.
        let is_there = |namespace: &str| told.iter().any(|claim| &*claim.namespace == namespace);
        self.look_again_at_external_pods_with(is_there, |claim| told.contains(claim));
        self.look_again_at(|job| {
            let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
            is_there(namespace) && {
                let mut claims = self.claims_of(job).into_iter();
                claims.any(|claim| told.contains(&Key::new(namespace, &claim)))
            }
        });
    }

    /// Other volumes can be had for claims that are not bound, or none.
    fn class_changed(&self) {
        self.storage_changed.notify_waiters();
        self.look_again_at(|job| !self.claims_of(job).is_empty() || self.has_ephemeral(job));
        self.look_again_at_external_pods_with(|_| true, |_| true);
    }
}

impl Sink<SlimClaim> for Watched {
    fn apply(&self, key: Key, object: SlimClaim) {
        let before = self.world.claims.get(&key);
        let changed = before.is_none_or(|before| !before.is_like(&object));
        let pod = object.pod().cloned();
        self.world.claims.observed(key.clone(), object);
        if changed {
            self.world.claim_changed(&key, pod.as_ref());
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let before = self.world.claims.get(key);
        self.world.claims.deleted(key, uid);
        let pod = before.as_ref().and_then(|claim| claim.pod());
        self.world.claim_changed(key, pod);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimVolume> for Watched {
    fn apply(&self, key: Key, object: SlimVolume) {
        let before = self.world.volumes.get(&key);
        let changed = before
            .as_ref()
            .is_none_or(|before| !before.is_like(&object));
        self.world.volumes.observed(key.clone(), object);
        if changed {
            let after = self.world.volumes.get(&key);
            self.world
                .volume_changed([before.as_deref(), after.as_deref()]);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let before = self.world.volumes.get(key);
        self.world.volumes.deleted(key, uid);
        self.world.volume_changed([before.as_deref(), None]);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimStorageClass> for Watched {
    fn apply(&self, key: Key, object: SlimStorageClass) {
        let before = self.world.storage_classes.get(&key);
        let changed = before.is_none_or(|before| !before.is_like(&object));
        self.world.storage_classes.observed(key, object);
        if changed {
            self.world.class_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.storage_classes.deleted(key, uid);
        self.world.class_changed();
    }

    fn synced(&self) {
        self.listed();
    }
}
