//! Pods that are created while other pods of their attempt exist: replacements of failed pods, and
//! pods of groups that depend on other groups. The status records them before they are created, so
//! that each counts once.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::{AwaitedPodOptions, AwaitedPods, TaskGroup};

use crate::lifecycle::Evaluation;
use crate::observed::{PodPhase, PodView};

/// Pods of one group that are still to be created.
#[derive(Clone, Debug, Default)]
struct AwaitedEntry {
    indexes: BTreeSet<u32>,
    round: i64,
    /// As [`trellis_api::job::AwaitedGroup::displaced`].
    displaced: bool,
}

/// The pods of one attempt that are still to be created.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwaitedIndex {
    pods: BTreeMap<String, Vec<AwaitedEntry>>,
    waiting_groups: BTreeSet<String>,
}

impl AwaitedIndex {
    fn from_status(status: &AwaitedPods) -> Self {
        let mut awaited = Self {
            waiting_groups: status.held_groups.iter().cloned().collect(),
            ..Self::default()
        };
        for group in &status.pods {
            let entries = awaited.pods.entry(group.name.clone()).or_default();
            entries.push(AwaitedEntry {
                indexes: group.indexes(),
                round: group.round,
                displaced: group.displaced,
            });
        }
        awaited
    }

    fn round(&self, group: &str, index: u32) -> Option<i64> {
        let entries = self.pods.get(group)?.iter();
        let entries_of_pod = entries.filter(|entry| entry.indexes.contains(&index));
        entries_of_pod.map(|entry| entry.round).max()
    }

    /// Returns the index with these pods added.
    pub(in crate::lifecycle) fn with_pods(&self, pods: BTreeMap<String, BTreeSet<u32>>) -> Self {
        let mut index = self.clone();
        for (group, indexes) in pods {
            let entries = index.pods.entry(group).or_default();
            entries.push(AwaitedEntry {
                indexes,
                round: i64::MAX,
                displaced: false,
            });
        }
        index
    }

    /// Returns true if the pod belongs to a slice that cannot return to its nodes.
    pub(in crate::lifecycle) fn is_displaced(&self, group: &str, index: u32) -> bool {
        let mut entries = self.pods.get(group).into_iter().flatten();
        entries.any(|entry| entry.displaced && entry.indexes.contains(&index))
    }

    /// Returns true if the pod is still to be created, so that its absence is no failure.
    pub(crate) fn contains(&self, group: &str, index: u32) -> bool {
        self.waiting_groups.contains(group) || self.round(group, index).is_some()
    }

    /// Returns true if a replacement of the pod is awaited. Then the state of the pod itself does
    /// not matter any more.
    pub(in crate::lifecycle) fn is_replaced(&self, pod: &PodView) -> bool {
        let round = self.round(&pod.group, pod.index);
        round.is_some_and(|round| pod.round < round)
    }

    /// Returns true if any pod is awaited.
    pub(in crate::lifecycle) fn has_pods(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Returns true if any pod is awaited, or any group waits for other groups.
    pub(in crate::lifecycle) fn has_any(&self) -> bool {
        self.has_pods() || !self.waiting_groups.is_empty()
    }

    /// Returns true if any pod that matches the predicate is awaited.
    pub(in crate::lifecycle) fn has_pods_of(
        &self,
        mut matches_pod: impl FnMut(&str, u32) -> bool,
    ) -> bool {
        let groups = self.pods.iter();
        let mut entries =
            groups.flat_map(|(group, entries)| entries.iter().map(move |e| (group, e)));
        entries.any(|(group, entry)| entry.indexes.iter().any(|index| matches_pod(group, *index)))
    }
}

impl Evaluation<'_> {
    /// Returns the awaited pods of the current attempt, from the status. In an attempt that is not
    /// placed yet, all groups that depend on other groups wait.
    pub(in crate::lifecycle) fn awaited_pods(&self) -> AwaitedPods {
        let attempt = self.attempt();
        // A job that resumes after a suspension begins anew.
        let recorded = self.status.internal.awaited_pods.as_ref();
        let recorded = recorded.filter(|_| !self.observed.spec.is_suspended());
        if let Some(recorded) = recorded.filter(|recorded| recorded.attempt == attempt) {
            return recorded.clone();
        }
        let waits = |group: &&TaskGroup| !group.depends_on.is_empty();
        let held_groups = self.spec.task_groups.iter().filter(waits);
        AwaitedPods {
            attempt,
            held_groups: held_groups.map(|group| group.name.clone()).collect(),
            ..AwaitedPods::default()
        }
    }

    /// Replaces the awaited pods, and with them the roster and the finished pods of the attempt.
    pub(in crate::lifecycle) fn replace_awaited(&mut self, awaited: AwaitedPods) {
        self.awaited = AwaitedIndex::from_status(&awaited);
        self.attempt_pods = self.collect_attempt_pods();
        self.finished = self.finished_pods();
        // The status has no entry for a job whose pods are never awaited.
        let waits = |group: &TaskGroup| !group.depends_on.is_empty();
        let is_recorded = awaited.round > 0
            || !awaited.pods.is_empty()
            || self.spec.task_groups.iter().any(waits);
        self.status.internal.awaited_pods = is_recorded.then_some(awaited);
    }

    /// Removes pods that exist by now, and groups whose dependencies are ready.
    pub(in crate::lifecycle) fn remove_arrived(&mut self) {
        if !self.awaited.has_any() {
            return;
        }
        let mut awaited = self.awaited_pods();
        let mut arrived: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for pod in self.attempt_pods.pods() {
            if self.awaited.round(&pod.group, pod.index).is_some() {
                arrived.entry(&pod.group).or_default().insert(pod.index);
            }
        }
        for (group, pods) in arrived {
            awaited.stop_awaiting_pods(group, &pods);
        }
        let held_groups = std::mem::take(&mut awaited.held_groups);
        for name in held_groups {
            let group = self.observed.spec.group(&name);
            let waits = group.is_some_and(|group| !self.has_ready_dependencies(group));
            match group {
                Some(_) if waits => awaited.held_groups.push(name),
                Some(group) => {
                    let pods = self.gang_pods(group).collect();
                    awaited.await_pods(&name, &pods, AwaitedPodOptions::default());
                }
                None => {}
            }
        }
        self.replace_awaited(awaited);
    }

    fn has_ready_dependencies(&self, group: &TaskGroup) -> bool {
        let dependencies = group.depends_on.iter();
        dependencies
            .filter_map(|d| self.observed.spec.group(&d.group))
            .all(|other| self.is_group_ready(other))
    }

    /// Returns true if all pods of the group that are part of the gang are ready or have succeeded.
    fn is_group_ready(&self, group: &TaskGroup) -> bool {
        let group_pods = self
            .attempt_pods
            .pods()
            .filter(|pod| pod.group == group.name);
        let is_up = |pod: &&PodView| pod.phase == PodPhase::Running && pod.ready && !pod.deleting;
        let mut ready: BTreeSet<u32> = group_pods.filter(is_up).map(|pod| pod.index).collect();
        let gang = || self.gang_pods(group);
        ready.extend(gang().filter(|i| self.finished.has_completed(&group.name, *i)));
        gang().all(|index| ready.contains(&index))
    }
}
