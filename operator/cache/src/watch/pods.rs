//! The pods of our jobs, by job.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use tracing::warn;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::observed::{JudgedSpec, SlimPod};

use super::store::version;
use super::tombstones::Tombstones;

/// Pods of one job, by name.
pub type JobPods = BTreeMap<String, PodView>;

/// Urgency of a pod's change for its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeUrgency {
    /// No field that the scheduler reads has changed.
    None,
    /// The pod progresses as expected. The controller reconciles the job after a delay, together
    /// with other changes.
    Progress,
    /// The pod is new. The scheduler checks at once whether a plan names it, and the controller
    /// reconciles the job after a delay.
    New,
    /// The pod ended, is being deleted, or was replaced. The controller reconciles the job at once.
    Urgent,
}

impl ChangeUrgency {
    fn from_views(before: Option<&PodView>, after: &PodView) -> Self {
        let Some(before) = before else {
            return if after.phase.is_over() || after.deleting {
                Self::Urgent
            } else {
                Self::New
            };
        };
        let calm = PodView {
            phase: before.phase.clone(),
            checkpoint: before.checkpoint.clone(),
            ready: before.ready,
            ..after.clone()
        };
        if *before == *after {
            Self::None
        } else if *before == calm && !after.phase.is_over() {
            Self::Progress
        } else {
            Self::Urgent
        }
    }
}

/// The pods of every job.
#[derive(Debug, Default)]
pub struct PodIndex {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: BTreeMap<Key, Arc<JobPods>>,
    /// Job of each pod, to find the job when the pod is gone.
    owners: BTreeMap<Key, Key>,
    /// Uids of pods whose deletion the watch or an answer has shown.
    deleted: Tombstones,
    /// Uids of pods that the watch has replaced by another pod of the same name. If the watch is
    /// late, that pod may be the older one.
    replaced: Tombstones,
    /// Pods that are known only from the answer to their creation, with their resource version.
    unobserved: BTreeMap<Key, Option<u64>>,
    /// Version of the last complete list.
    listed: Option<u64>,
}

impl Inner {
    /// Removes the pod from its job. Returns the job and the removed pod.
    fn remove(&mut self, key: &Key) -> Option<(Key, Option<PodView>)> {
        let job = self.owners.remove(key)?;
        self.unobserved.remove(key);
        let mut before = None;
        if let Some(pods) = self.jobs.get_mut(&job) {
            before = Arc::make_mut(pods).remove(key.name.as_ref());
            if pods.is_empty() {
                self.jobs.remove(&job);
            }
        }
        Some((job, before))
    }

    /// Returns true if another pod of the name was created after this version of the pod.
    fn is_older_than_created(&self, key: &Key, pod: &SlimPod) -> bool {
        let created = self.unobserved.get(key);
        created.is_some_and(|created| version(pod) < *created)
    }

    fn insert(&mut self, key: &Key, job: Key, view: PodView) {
        self.owners.insert(key.clone(), job.clone());
        let pods = self.jobs.entry(job).or_default();
        Arc::make_mut(pods).insert(key.name.to_string(), view);
    }
}

impl PodIndex {
    /// Stores a pod as the watch shows it. Returns the jobs that the change concerns: the pod's
    /// job, and its former job if that differs. None if an answer has shown that the pod is gone, or
    /// that a newer pod has its name. In that case the watch is late.
    pub fn apply(&self, key: &Key, pod: &SlimPod) -> Option<Vec<(Key, ChangeUrgency)>> {
        let now = PodView::from_pod(pod);
        let mut inner = self.inner.write();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if inner.deleted.contains(uid) || inner.is_older_than_created(key, pod) {
            return None;
        }
        inner.unobserved.remove(key);
        let mut changes = Vec::new();
        let moved = inner
            .owners
            .get(key)
            .is_some_and(|before| now.as_ref().is_none_or(|(job, _)| job != before));
        if moved && let Some((before, _)) = inner.remove(key) {
            changes.push((before, ChangeUrgency::Urgent));
        }
        if let Some((job, mut view)) = now {
            let before = inner
                .jobs
                .get(&job)
                .and_then(|pods| pods.get(key.name.as_ref()));
            // A deletion is final: the watch may be older than the answer to our delete.
            if let Some(before) = before.filter(|before| before.uid == view.uid) {
                view.deleting |= before.deleting;
                if view.judged_spec.inherit_changes(&before.judged_spec) {
                    warn_of_change(key, &view.judged_spec);
                }
            }
            let change = ChangeUrgency::from_views(before, &view);
            let replaced = before
                .filter(|before| before.uid != view.uid)
                .map(|before| before.uid.clone());
            if let Some(uid) = replaced {
                inner.replaced.add(&uid);
            }
            if change != ChangeUrgency::None {
                inner.insert(key, job.clone(), view);
            }
            changes.push((job, change));
        }
        Some(changes)
    }

    /// Stores a pod from the answer to its creation, unless the watch has shown the pod or its
    /// deletion, or a later list lacks it. Returns true if it stored the pod.
    pub fn insert_created(&self, key: &Key, pod: &SlimPod) -> bool {
        let Some((job, view)) = PodView::from_pod(pod) else {
            return false;
        };
        let mut inner = self.inner.write();
        let version = version(pod);
        let gone = inner.deleted.contains(&view.uid)
            || inner.replaced.contains(&view.uid)
            || inner.listed.is_some_and(|at| version <= Some(at));
        if gone || inner.owners.contains_key(key) {
            return false;
        }
        inner.insert(key, job, view);
        inner.unobserved.insert(key.clone(), version);
        true
    }

    /// Handles a complete list of version `at`. Returns the pods that were created and deleted
    /// without the watch showing either.
    pub fn unlisted_pods(&self, listed: &HashSet<Key>, at: u64) -> Vec<(Key, String)> {
        let mut inner = self.inner.write();
        inner.listed = Some(at);
        let unseen = inner.unobserved.iter();
        unseen
            .filter(|(key, version)| !listed.contains(*key) && **version <= Some(at))
            .filter_map(|(key, _)| {
                let pods = inner.jobs.get(inner.owners.get(key)?)?;
                Some((key.clone(), pods.get(key.name.as_ref())?.uid.clone()))
            })
            .collect()
    }

    /// Returns true if a pod of that name is known and holds its resources.
    pub fn holds_resources(&self, key: &Key) -> bool {
        let inner = self.inner.read();
        let pods = inner.owners.get(key).and_then(|job| inner.jobs.get(job));
        pods.and_then(|pods| pods.get(key.name.as_ref()))
            .is_some_and(|pod| !pod.phase.is_over())
    }

    /// Removes a pod and returns its job. Keeps a pod of the same name that Trellis has created
    /// since.
    pub fn delete(&self, key: &Key, uid: &str) -> Option<Key> {
        let mut inner = self.inner.write();
        let job = inner.owners.get(key)?;
        let pods = inner.jobs.get(job);
        let other = pods
            .and_then(|pods| pods.get(key.name.as_ref()))
            .is_some_and(|pod| pod.uid != uid);
        inner.deleted.add(uid);
        if other {
            return None;
        }
        inner.remove(key).map(|(job, _)| job)
    }

    /// Records that the API server accepted our delete. The pod is being deleted, even if the watch
    /// has not shown it yet.
    pub fn mark_deleting(&self, key: &Key, uid: &str) {
        let mut inner = self.inner.write();
        let Some(job) = inner.owners.get(key).cloned() else {
            return;
        };
        let Some(pods) = inner.jobs.get_mut(&job) else {
            return;
        };
        let is_running_pod = |pod: &PodView| pod.uid == uid && !pod.deleting;
        if pods.get(key.name.as_ref()).is_some_and(is_running_pod)
            && let Some(pod) = Arc::make_mut(pods).get_mut(key.name.as_ref())
        {
            pod.deleting = true;
        }
    }

    /// Returns the job that a pod belongs to. None if the pod belongs to no TrainingJob.
    pub fn job_of_pod(&self, pod: &Key) -> Option<Key> {
        self.inner.read().owners.get(pod).cloned()
    }

    /// Returns true if a pod of a TrainingJob has the name.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.inner.read().owners.contains_key(key)
    }

    /// Returns the pods of a job.
    #[must_use]
    pub fn pods_of_job(&self, job: &Key) -> Arc<JobPods> {
        self.inner.read().jobs.get(job).cloned().unwrap_or_default()
    }

    /// Returns the nodes that match the predicate and have a pod of a job.
    #[must_use]
    pub fn filter_nodes(&self, holds: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let inner = self.inner.read();
        let pods = inner.jobs.values().flat_map(|pods| pods.values());
        let nodes = pods.filter_map(|pod| pod.node.as_deref());
        let nodes: BTreeSet<&str> = nodes.collect();
        let nodes = nodes.into_iter().filter(|node| holds(node));
        nodes.map(str::to_owned).collect()
    }

    /// Returns the number of pods whose spec changed after policies had judged it.
    #[must_use]
    pub fn count_changed_specs(&self) -> usize {
        let inner = self.inner.read();
        let pods = inner.jobs.values().flat_map(|pods| pods.values());
        pods.filter(|pod| pod.judged_spec.is_changed()).count()
    }

    /// Returns the jobs that have a pod on one of the nodes.
    #[must_use]
    pub fn jobs_on_nodes(&self, nodes: impl Fn(&str) -> bool) -> Vec<Key> {
        let there = |pod: &PodView| pod.node.as_deref().is_some_and(&nodes);
        self.inner
            .read()
            .jobs
            .iter()
            .filter(|(_, pods)| pods.values().any(there))
            .map(|(job, _)| job.clone())
            .collect()
    }
}

/// Logs that a pod runs with a spec that no policy has judged.
pub(super) fn warn_of_change(pod: &Key, judged: &JudgedSpec) {
    let changed = judged.changed_parts().unwrap_or_default();
    warn!(%pod, %changed, "the spec of a pod was changed after policies had judged it");
}

#[cfg(test)]
mod tests;
