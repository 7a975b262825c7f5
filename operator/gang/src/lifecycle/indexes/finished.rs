//! Pods that have ended and need not run again. The status records them, so a finished pod that
//! disappears with its node does not count as missing.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::{
    FinishedGroup, FinishedPods, RestartAction, RestartRule, format_ranges, parse_ranges,
};

use crate::lifecycle::{BadNodes, Evaluation};
use crate::observed::{PodPhase, PodView};

/// Pods by group and index.
type IndexesByGroup<'a> = BTreeMap<&'a str, BTreeSet<u32>>;

/// Pods of the current attempt that have ended.
#[derive(Debug, Default)]
pub(crate) struct FinishedIndex<'a> {
    /// Pods that have succeeded.
    completed: IndexesByGroup<'a>,
    /// Pods that have failed and whose failure is ignored.
    failed: IndexesByGroup<'a>,
}

fn count_pods(pods: &IndexesByGroup<'_>) -> usize {
    pods.values()
        .map(BTreeSet::len)
        .fold(0, usize::saturating_add)
}

fn count_matching(pods: &IndexesByGroup<'_>, matches_pod: impl Fn(&str, u32) -> bool) -> usize {
    let groups = pods.iter();
    let counts = groups.map(|(group, indexes)| {
        let meant = indexes.iter().filter(|index| matches_pod(group, **index));
        meant.count()
    });
    counts.fold(0, usize::saturating_add)
}

fn contains_index(pods: &IndexesByGroup<'_>, group: &str, index: u32) -> bool {
    pods.get(group)
        .is_some_and(|indexes| indexes.contains(&index))
}

impl<'a> FinishedIndex<'a> {
    /// Returns the finished pods of this attempt, from the status.
    pub(in crate::lifecycle) fn from_status(
        status: Option<&'a FinishedPods>,
        attempt: i64,
    ) -> Self {
        let mut finished = Self::default();
        let recorded = status.filter(|recorded| recorded.attempt == attempt);
        for group in recorded.iter().flat_map(|recorded| &recorded.groups) {
            let name = group.name.as_str();
            finished
                .completed
                .insert(name, parse_ranges(&group.completed_indexes));
            finished
                .failed
                .insert(name, parse_ranges(&group.failed_indexes));
        }
        finished
    }

    fn retain(&mut self, keep: impl Fn(&str, u32) -> bool) {
        for pods in [&mut self.completed, &mut self.failed] {
            for (group, indexes) in pods.iter_mut() {
                indexes.retain(|index| keep(group, *index));
            }
        }
    }

    /// Returns the number of pods that have succeeded.
    pub(in crate::lifecycle) fn completed_count(&self) -> usize {
        count_pods(&self.completed)
    }

    /// Returns the number of succeeded pods that match the predicate.
    pub(in crate::lifecycle) fn count_completed(
        &self,
        matches_pod: impl Fn(&str, u32) -> bool,
    ) -> usize {
        count_matching(&self.completed, matches_pod)
    }

    /// Returns the number of pods with ignored failures that match the predicate.
    pub(in crate::lifecycle) fn count_ignored(
        &self,
        matches_pod: impl Fn(&str, u32) -> bool,
    ) -> usize {
        count_matching(&self.failed, matches_pod)
    }

    /// Returns true if this pod has succeeded.
    pub(in crate::lifecycle) fn has_completed(&self, group: &str, index: u32) -> bool {
        contains_index(&self.completed, group, index)
    }

    /// Returns a succeeded pod of a group that matches.
    pub(in crate::lifecycle) fn find_completed(
        &self,
        is_match: impl Fn(&str) -> bool,
    ) -> Option<(&'a str, u32)> {
        let mut completed = self.completed.iter().filter(|(group, _)| is_match(group));
        completed.find_map(|(group, indexes)| Some((*group, *indexes.first()?)))
    }

    /// Returns true if the pod has finished, so that its absence is no failure.
    pub(crate) fn contains(&self, group: &str, index: u32) -> bool {
        self.has_completed(group, index) || contains_index(&self.failed, group, index)
    }

    /// Returns the status entry for this attempt.
    pub(in crate::lifecycle) fn to_status(&self, attempt: i64) -> Option<FinishedPods> {
        let names: BTreeSet<&str> = self
            .completed
            .keys()
            .chain(self.failed.keys())
            .copied()
            .collect();
        let ranges = |pods: &IndexesByGroup<'_>, name: &str| {
            pods.get(name).map(format_ranges).unwrap_or_default()
        };
        let groups = names.into_iter().map(|name| FinishedGroup {
            name: name.to_owned(),
            completed_indexes: ranges(&self.completed, name),
            failed_indexes: ranges(&self.failed, name),
        });
        let is_some = |group: &FinishedGroup| {
            !(group.completed_indexes.is_empty() && group.failed_indexes.is_empty())
        };
        let groups: Vec<_> = groups.filter(is_some).collect();
        (!groups.is_empty()).then_some(FinishedPods { attempt, groups })
    }
}

impl<'a> Evaluation<'a> {
    /// Returns the finished pods of the current attempt, from the observed pods and from the
    /// status.
    pub(in crate::lifecycle) fn finished_pods(&self) -> FinishedIndex<'a> {
        let recorded = self.observed.status.internal.finished_pods.as_ref();
        // A job that resumes after a suspension begins anew.
        let recorded = recorded.filter(|_| !self.observed.spec.is_suspended());
        let mut finished = FinishedIndex::from_status(recorded, self.attempt());
        // A pod whose replacement is awaited does not count as finished.
        finished.retain(|group, index| !self.awaited.contains(group, index));
        let completed = self.attempt_pods.pods();
        for pod in completed.filter(|pod| pod.phase == PodPhase::Succeeded) {
            let indexes = finished.completed.entry(&pod.group).or_default();
            indexes.insert(pod.index);
        }
        let ignores = |rule: &RestartRule| rule.action == RestartAction::Ignore;
        if !self.restart_rules().iter().any(ignores) {
            return finished;
        }
        // A failure can be ignored only if other pods still run or have succeeded.
        let nodes = BadNodes::default();
        let attempt = self.observe_attempt(&[], &nodes, &finished);
        let ignored = self
            .attempt_pods
            .pods()
            .filter(|pod| attempt.is_ignored(pod));
        let ignored: Vec<&PodView> = ignored.collect();
        for pod in ignored {
            let indexes = finished.failed.entry(&pod.group).or_default();
            indexes.insert(pod.index);
        }
        finished
    }
}
