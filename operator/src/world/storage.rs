//! Claims, volumes and their classes, as the watches and answers to our own writes show them.
//! Each change is told to the jobs that mount the claim, or that could have the volume.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::futures::Notified;
use trellis_api::TrainingJob;
use trellis_compiler::Profile;
use trellis_scheduler::{Node, NodeName, Resources};

use super::{Watched, World};
use crate::controller::{claims, lookup};
use crate::key::Key;
use crate::scheduling::binding::{Mounts, Stock};
use crate::watch::{Sink, SlimClaim, SlimStorageClass, SlimVolume};

impl World {
    /// What is known of these claims of a namespace, and of what they may be bound to.
    #[must_use]
    pub fn stock(&self, namespace: &str, mounts: &Mounts) -> Stock {
        let claims: BTreeMap<_, _> = mounts
            .keys()
            .filter_map(|name| {
                let claim = self.claims.get(&Key::new(namespace, name))?;
                Some((name.clone(), claim))
            })
            .collect();
        let classes = claims.values().filter_map(|claim| {
            let class = self.storage_classes.get(&Key::new("", claim.class()))?;
            Some((claim.class().to_owned(), class))
        });
        let nodes = mounts.values().flat_map(|mount| &mount.nodes);
        let nodes = nodes.filter_map(|name| {
            let known = self.nodes.get(&Key::new("", name))?;
            let mut node = Node::new(NodeName::new(name.as_str()), Resources::new());
            node.labels = known.metadata.labels.clone().unwrap_or_default();
            Some((name.clone(), node))
        });
        // All volumes are looked at only where one is to be chosen.
        let volumes = match claims.values().all(|claim| claim.is_bound()) {
            true => claims
                .values()
                .filter_map(|claim| self.volumes.get(&Key::new("", &claim.spec.volume_name)))
                .collect(),
            false => self.volumes.all(),
        };
        Stock {
            classes: classes.collect(),
            nodes: nodes.collect(),
            volumes,
            claims,
            taken: BTreeSet::new(),
        }
    }

    /// Ends when a claim or a volume changes after this call.
    pub fn storage_changes(&self) -> Notified<'_> {
        self.storage_changed.notified()
    }

    /// The answer to a change of ours of a claim.
    pub fn claim_answered(&self, key: &Key, claim: SlimClaim) {
        if self.claims.answered(key.clone(), claim) {
            self.claim_changed(key);
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
        let profile = lookup::profile(&job.spec, &self.profiles);
        let profile = profile.ok().flatten();
        let mounted = claims::mounted(&job.spec, None, profile.as_deref().map(Profile::spec));
        mounted.into_iter().map(|(_, claim)| claim).collect()
    }

    fn claim_changed(&self, key: &Key) {
        self.storage_changed.notify_waiters();
        self.look_again_at(|job| {
            job.metadata.namespace.as_deref() == Some(&*key.namespace)
                && self.claims_of(job).contains(&*key.name)
        });
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
        self.look_again_at(|job| {
            let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
            let mut claims = self.claims_of(job).into_iter();
            claims.any(|claim| told.contains(&Key::new(namespace, &claim)))
        });
    }

    /// Other volumes can be had for claims that are not bound, or none.
    fn class_changed(&self) {
        self.storage_changed.notify_waiters();
        self.look_again_at(|job| !self.claims_of(job).is_empty());
    }
}

impl Sink<SlimClaim> for Watched {
    fn apply(&self, key: Key, object: SlimClaim) {
        let before = self.world.claims.get(&key);
        let changed = before.is_none_or(|before| !before.is_like(&object));
        self.world.claims.observed(key.clone(), object);
        if changed {
            self.world.claim_changed(&key);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.claims.deleted(key, uid);
        self.world.claim_changed(key);
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
