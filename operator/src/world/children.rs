//! What belongs to a job, as the watches show it: NetworkPolicy, ConfigMap,
//! PodGroup, pods.

use std::collections::HashSet;
use std::time::Duration;

use trellis_api::{PodGroup, names};

use super::Watched;
use crate::key::Key;
use crate::scheduling::Feed;
use crate::watch::{Change, Sink, SlimConfigMap, SlimNetworkPolicy, SlimPod, Undecodable};

/// How long the news of pods that start are gathered before their job is looked at.
const GATHER: Duration = Duration::from_millis(50);

impl Sink<SlimNetworkPolicy> for Watched {
    fn apply(&self, key: Key, object: SlimNetworkPolicy) {
        self.world.network_policies.observed(key.clone(), object);
        self.world.touch(key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.world.network_policies.remove(key);
        self.world.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.network_policies.deleted(key, uid);
        self.world.touch(key.clone());
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.world.network_policies.ghosts(listed, version)
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Watched {
    /// The job that a ConfigMap may be of, by its name.
    fn touch_job_of(&self, config_map: &Key) {
        if let Some(job) = names::job_of_hosts(&config_map.name) {
            self.world.touch(Key::new(&config_map.namespace, job));
        }
    }
}

impl Sink<SlimConfigMap> for Watched {
    fn apply(&self, key: Key, object: SlimConfigMap) {
        self.world.config_maps.observed(key.clone(), object);
        self.touch_job_of(&key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.world.config_maps.remove(key);
        self.touch_job_of(key);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.config_maps.deleted(key, uid);
        self.touch_job_of(key);
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.world.config_maps.ghosts(listed, version)
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<PodGroup> for Watched {
    fn apply(&self, key: Key, object: PodGroup) {
        self.world.pod_groups.observed(key.clone(), object);
        self.world.touch(key);
    }

    /// Its job stands still.
    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.world.pod_groups.remove(key);
        self.world.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.pod_groups.deleted(key, uid);
        self.world.touch(key.clone());
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.world.pod_groups.ghosts(listed, version)
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimPod> for Watched {
    fn apply(&self, key: Key, object: SlimPod) {
        let Some(changes) = self.world.pods.apply(&key, &object) else {
            return;
        };
        for repulsion in self.world.repulsions.apply(&key, &object) {
            self.world.tell(Feed::Repulsion(repulsion));
        }
        let feed = Feed::pod(key.clone(), &object);
        let mut over = None;
        match feed {
            Feed::Pod { .. } => self.world.tell(feed),
            _ => over = Some(feed),
        }
        // What is set aside for a pod is free once the pod counts itself, and
        // set aside again before it counts no more.
        if let Some(node) = self.world.daemon_pods.apply(&key, &object) {
            self.world.reserve_changed(node);
        }
        if let Some(over) = over {
            self.world.tell(over);
        }
        for (job, change) in changes {
            match change {
                Change::Urgent => self.world.touch(job),
                // A gang of a thousand pods starts: a few looks, not a thousand.
                Change::Progress | Change::New => {
                    if change == Change::New {
                        self.world.tell(Feed::Look(job.clone()));
                    }
                    self.world.work.add_after(job, GATHER);
                }
                Change::None => {}
            }
        }
    }

    /// What is known of it stays: a pod that is there holds its node, and one
    /// that is gone is buried, and does not come back.
    fn undecodable(&self, _: &Key, _: Undecodable) {}

    fn delete(&self, key: &Key, uid: &str) {
        let job = self.world.pods.delete(key, uid);
        for repulsion in self.world.repulsions.delete(key) {
            self.world.tell(Feed::Repulsion(repulsion));
        }
        if let Some(node) = self.world.daemon_pods.delete(key) {
            self.world.reserve_changed(node);
        }
        // Another of that name, which a create of ours has made since, holds its node.
        if !self.world.pods.knows(key) {
            self.world.tell(Feed::PodGone(key.clone()));
        }
        if let Some(job) = job {
            self.world.touch(job);
        }
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.world.pods.ghosts(listed, version)
    }

    fn synced(&self) {
        self.listed();
    }
}
