//! The pods of our jobs, by job.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::RwLock;
use trellis_api::names;

use super::slim::SlimPod;
use crate::key::Key;

/// Uids of deleted pods that are remembered, so that a late answer to a create
/// does not bring a deleted pod back.
const REMEMBERED: usize = 4096;

/// What the lifecycle needs to know of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Uid.
    pub uid: String,
    /// Uid of the TrainingJob that owns it.
    pub job_uid: String,
    /// Task group.
    pub group: String,
    /// Index in the group.
    pub index: u32,
    /// Attempt that it belongs to.
    pub attempt: i64,
    /// Hash of the plan that placed it.
    pub plan: String,
    /// Node.
    pub node: Option<String>,
    /// How it does.
    pub phase: PodPhase,
    /// True from the deletion's start until the pod is gone.
    pub deleting: bool,
    /// True if someone disrupts it (condition DisruptionTarget).
    pub disrupted: bool,
}

/// How a pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Its containers do not run yet.
    Pending,
    /// Its containers run.
    Running,
    /// It ended with exit code 0.
    Succeeded,
    /// Its kubelet would not take it: Failed, and no container ever was.
    Refused {
        /// The kubelet's word: `OutOfnvidia.com/gpu`, `NodeAffinity`, ...
        reason: String,
    },
    /// It failed.
    Failed {
        /// Exit code of the container that failed.
        exit_code: Option<i32>,
        /// The container's or the pod's word.
        reason: String,
    },
}

impl PodPhase {
    /// True once the pod holds nothing any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

impl PodView {
    /// The job that a pod belongs to and what we know of it. None for pods
    /// that are not controlled by a TrainingJob, whatever their labels say.
    #[must_use]
    pub fn of(pod: &SlimPod) -> Option<(Key, Self)> {
        let meta = &pod.metadata;
        let owner = meta
            .owner_references
            .iter()
            .flatten()
            .find(|o| o.controller == Some(true))?;
        if owner.kind != "TrainingJob" || !owner.api_version.starts_with("trellis.dev/") {
            return None;
        }
        let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key));
        let view = Self {
            uid: meta.uid.clone().unwrap_or_default(),
            job_uid: owner.uid.clone(),
            group: label(names::GROUP).cloned().unwrap_or_default(),
            index: label(names::INDEX)
                .and_then(|i| i.parse().ok())
                .unwrap_or(0),
            attempt: label(names::ATTEMPT)
                .and_then(|a| a.parse().ok())
                .unwrap_or(0),
            plan: meta
                .annotations
                .as_ref()
                .and_then(|a| a.get(names::PLAN))
                .cloned()
                .unwrap_or_default(),
            node: pod.spec.node_name.clone(),
            phase: phase(pod),
            deleting: meta.deletion_timestamp.is_some(),
            disrupted: pod
                .status
                .conditions
                .iter()
                .any(|c| c.type_ == "DisruptionTarget" && c.status == "True"),
        };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Some((Key::new(namespace, &owner.name), view))
    }
}

fn phase(pod: &SlimPod) -> PodPhase {
    let status = &pod.status;
    let ended = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .filter_map(|c| c.state.terminated.as_ref());
    // The kernel may kill a child of the container's first process: the
    // container then ends with OOMKilled, exit code 0 and phase Succeeded.
    let failed = ended
        .clone()
        .find(|t| t.exit_code != 0 || t.reason.as_deref() == Some("OOMKilled"));
    match status.phase.as_deref() {
        Some("Succeeded") if failed.is_none() => PodPhase::Succeeded,
        Some("Succeeded" | "Failed") => {
            let no_container =
                status.container_statuses.is_empty() && status.init_container_statuses.is_empty();
            match (no_container, &status.reason) {
                (true, Some(reason)) if reason != "Evicted" => PodPhase::Refused {
                    reason: reason.clone(),
                },
                _ => PodPhase::Failed {
                    exit_code: failed.map(|t| t.exit_code),
                    reason: failed
                        .and_then(|t| t.reason.clone())
                        .filter(|r| r != "Error")
                        .or_else(|| status.reason.clone())
                        .unwrap_or_else(|| "Error".to_owned()),
                },
            }
        }
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

/// Pods of one job, by name.
pub type Pods = BTreeMap<String, PodView>;

/// How much a pod's change matters to its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anyone asks about.
    None,
    /// It goes as it should: worth counting, in its time.
    Progress,
    /// It was not known: counted in its time, but whether a plan names it is asked now.
    New,
    /// It ended, goes, or is not the pod that it was: to be looked at now.
    Turn,
}

impl Change {
    fn between(before: Option<&PodView>, after: &PodView) -> Self {
        let Some(before) = before else {
            return if after.phase.is_over() || after.deleting {
                Self::Turn
            } else {
                Self::New
            };
        };
        let calm = PodView {
            phase: before.phase.clone(),
            ..after.clone()
        };
        if *before == *after {
            Self::None
        } else if *before == calm && !after.phase.is_over() {
            Self::Progress
        } else {
            Self::Turn
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
    jobs: HashMap<Key, Arc<Pods>>,
    /// Job of each pod, to find it again when the pod is gone.
    owners: HashMap<Key, Key>,
    deleted: VecDeque<String>,
}

impl PodIndex {
    /// Takes a pod as the watch shows it. Gives the job that it belongs to,
    /// and what the change means to it.
    pub fn apply(&self, key: &Key, pod: &SlimPod) -> Option<(Key, Change)> {
        let (job, view) = PodView::of(pod)?;
        let mut inner = self.inner.write();
        inner.owners.insert(key.clone(), job.clone());
        let pods = inner.jobs.entry(job.clone()).or_default();
        let change = Change::between(pods.get(key.name.as_ref()), &view);
        if change != Change::None {
            Arc::make_mut(pods).insert(key.name.to_string(), view);
        }
        Some((job, change))
    }

    /// Takes a pod from the answer to its creation, unless the watch has shown
    /// it, or its end, before. Says whether it was taken.
    pub fn created(&self, key: &Key, pod: &SlimPod) -> bool {
        let Some((job, view)) = PodView::of(pod) else {
            return false;
        };
        let mut inner = self.inner.write();
        if inner.deleted.contains(&view.uid) || inner.owners.contains_key(key) {
            return false;
        }
        inner.owners.insert(key.clone(), job.clone());
        let pods = inner.jobs.entry(job).or_default();
        Arc::make_mut(pods).insert(key.name.to_string(), view);
        true
    }

    /// Forgets a pod. Gives the job that it belonged to.
    pub fn delete(&self, key: &Key) -> Option<Key> {
        let mut inner = self.inner.write();
        let job = inner.owners.remove(key)?;
        if let Some(pods) = inner.jobs.get_mut(&job) {
            let gone = Arc::make_mut(pods).remove(key.name.as_ref());
            let empty = pods.is_empty();
            if empty {
                inner.jobs.remove(&job);
            }
            if let Some(gone) = gone {
                if inner.deleted.len() >= REMEMBERED {
                    inner.deleted.pop_front();
                }
                inner.deleted.push_back(gone.uid);
            }
        }
        Some(job)
    }

    /// The pods of a job.
    #[must_use]
    pub fn of(&self, job: &Key) -> Arc<Pods> {
        self.inner.read().jobs.get(job).cloned().unwrap_or_default()
    }

    /// Jobs that have a pod on the node.
    #[must_use]
    pub fn jobs_on(&self, node: &str) -> Vec<Key> {
        self.inner
            .read()
            .jobs
            .iter()
            .filter(|(_, pods)| pods.values().any(|p| p.node.as_deref() == Some(node)))
            .map(|(job, _)| job.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, phase: &str) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {
                "name": "j-worker-0", "namespace": "ns", "uid": uid,
                "ownerReferences": [{
                    "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                    "uid": "job", "controller": true,
                }],
            },
            "spec": {"nodeName": "n"},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_change_means() {
        let index = PodIndex::default();
        let key = Key::new("ns", "j-worker-0");
        let change = |pod: &SlimPod| index.apply(&key, pod).unwrap().1;
        assert_eq!(change(&pod("a", "Pending")), Change::New);
        assert_eq!(change(&pod("a", "Pending")), Change::None);
        assert_eq!(change(&pod("a", "Running")), Change::Progress);
        assert_eq!(change(&pod("a", "Failed")), Change::Turn);
        assert_eq!(change(&pod("b", "Pending")), Change::Turn, "another pod");
        let mut going = pod("b", "Pending");
        going.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(change(&going), Change::Turn);
    }

    #[test]
    fn a_late_answer_to_a_create_brings_no_deleted_pod_back() {
        let index = PodIndex::default();
        let key = Key::new("ns", "j-worker-0");
        assert!(index.created(&key, &pod("a", "Pending")));
        assert!(!index.created(&key, &pod("a", "Pending")), "known");
        assert_eq!(
            index.apply(&key, &pod("a", "Pending")).unwrap().1,
            Change::None
        );
        index.delete(&key);
        assert!(!index.created(&key, &pod("a", "Pending")));
        assert!(index.of(&Key::new("ns", "j")).is_empty());
    }
}
