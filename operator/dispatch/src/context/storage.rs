//! Claims, volumes and storage classes. A change wakes the jobs and external pods that mount the
//! claim or could get the volume.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use trellis_cache::watch::Sink;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimClaim, SlimStorageClass, SlimVolume};

use super::{Context, WatchSink};

impl Context {
    /// Applies the answer to a write of a claim.
    pub fn apply_written_claim(&self, key: &Key, claim: SlimClaim) {
        if self.cache.claims.update_returned(key.clone(), claim) {
            let claim = self.cache.claims.get(key);
            self.claim_changed(key, claim.as_ref().and_then(|claim| claim.pod()));
        }
    }

    /// Applies the answer to a write of a volume.
    pub(crate) fn apply_written_volume(&self, key: &Key, volume: SlimVolume) {
        let before = self.cache.volumes.get(key);
        if self.cache.volumes.update_returned(key.clone(), volume) {
            self.volume_changed([before.as_deref(), self.cache.volumes.get(key).as_deref()]);
        }
    }

    /// Wakes the pods that mount a changed claim. `pod`: the pod to which an ephemeral claim
    /// belongs.
    fn claim_changed(&self, key: &Key, pod: Option<&OwnerReference>) {
        self.cache.storage_changed.notify_waiters();
        // A pod other than the owner may wait for the name.
        self.requeue_external_pods_mounting(
            |namespace| namespace == &*key.namespace,
            |claim| claim == key,
        );
        if let Some(pod) = pod {
            self.requeue_job_of_pod(&Key::new(&key.namespace, &pod.name));
            return;
        }
        self.requeue_jobs(|job| {
            job.metadata.namespace.as_deref() == Some(&*key.namespace)
                && self.cache.job_claims(job).contains(&*key.name)
        });
    }

    /// Reconciles the job of a pod with an ephemeral claim.
    fn requeue_job_of_pod(&self, pod: &Key) {
        if let Some(job) = self
            .cache
            .pods
            .job_of_pod(pod)
            .filter(|_| self.cache.is_synced())
        {
            self.work_queue.add(job);
        }
    }

    /// Wakes the jobs of the claims that the volume belonged to before or belongs to now, and of
    /// the claims that could get it.
    fn volume_changed(&self, states: [Option<&SlimVolume>; 2]) {
        self.cache.storage_changed.notify_waiters();
        let mut affected: BTreeSet<Key> = BTreeSet::new();
        for volume in states.into_iter().flatten() {
            match &volume.spec.claim_ref {
                Some(claim) => {
                    affected.insert(Key::new(&claim.namespace, &claim.name));
                }
                None => {
                    let claims = self.cache.claims.all().into_iter();
                    let wait = claims.filter(|c| c.is_free() && c.class() == volume.class());
                    affected.extend(wait.map(|claim| Key::from_meta(&claim.metadata)));
                }
            }
        }
        if affected.is_empty() {
            return;
        }
        for key in &affected {
            let claim = self.cache.claims.get(key);
            if let Some(pod) = claim.as_ref().and_then(|claim| claim.pod()) {
                self.requeue_job_of_pod(&Key::new(&key.namespace, &pod.name));
            }
        }
        // Most pods are in other namespaces, so their claims need not be read.
        let is_there =
            |namespace: &str| affected.iter().any(|claim| &*claim.namespace == namespace);
        self.requeue_external_pods_mounting(is_there, |claim| affected.contains(claim));
        self.requeue_jobs(|job| {
            let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
            is_there(namespace) && {
                let mut claims = self.cache.job_claims(job).into_iter();
                claims.any(|claim| affected.contains(&Key::new(namespace, &claim)))
            }
        });
    }

    /// Handles a change of a class. Unbound claims may then get other volumes, or none.
    fn class_changed(&self) {
        self.cache.storage_changed.notify_waiters();
        self.requeue_jobs(|job| {
            !self.cache.job_claims(job).is_empty() || self.cache.has_ephemeral(job)
        });
        self.requeue_external_pods_mounting(|_| true, |_| true);
    }
}

impl Sink<SlimClaim> for WatchSink {
    fn apply(&self, key: Key, object: SlimClaim) {
        let before = self.context.cache.claims.get(&key);
        let changed = before.is_none_or(|before| !before.is_equal_for_pods(&object));
        let pod = object.pod().cloned();
        self.context
            .cache
            .claims
            .insert_observed(key.clone(), object);
        if changed {
            self.context.claim_changed(&key, pod.as_ref());
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let before = self.context.cache.claims.get(key);
        self.context.cache.claims.delete_observed(key, uid);
        let pod = before.as_ref().and_then(|claim| claim.pod());
        self.context.claim_changed(key, pod);
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<SlimVolume> for WatchSink {
    fn apply(&self, key: Key, object: SlimVolume) {
        let before = self.context.cache.volumes.get(&key);
        let changed = before
            .as_ref()
            .is_none_or(|before| !before.is_equal_for_claims(&object));
        self.context
            .cache
            .volumes
            .insert_observed(key.clone(), object);
        if changed {
            let after = self.context.cache.volumes.get(&key);
            self.context
                .volume_changed([before.as_deref(), after.as_deref()]);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        let before = self.context.cache.volumes.get(key);
        self.context.cache.volumes.delete_observed(key, uid);
        self.context.volume_changed([before.as_deref(), None]);
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<SlimStorageClass> for WatchSink {
    fn apply(&self, key: Key, object: SlimStorageClass) {
        let before = self.context.cache.storage_classes.get(&key);
        let changed = before.is_none_or(|before| !before.is_equal_for_binding(&object));
        self.context
            .cache
            .storage_classes
            .insert_observed(key, object);
        if changed {
            self.context.class_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.storage_classes.delete_observed(key, uid);
        self.context.class_changed();
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
