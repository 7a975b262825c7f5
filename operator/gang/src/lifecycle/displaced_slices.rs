//! Slices of the gang that cannot return to their nodes. A running slice outside the gang replaces
//! each; without one, the gang restarts.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_api::job::TaskGroup;

use super::Evaluation;
use super::recovery::{PodsByGroup, Recovery};
use crate::failure::fault::Fault;
use crate::spare_slices::running_spare_slices;

/// Removes and returns the recoveries from all unhealthy nodes but the first. The rate at which
/// unhealthy nodes are vacated counts one node at a time, when the status records its failure.
pub(super) fn postpone_evictions(recoveries: &mut Vec<Recovery>) -> Vec<Recovery> {
    let is_eviction =
        |recovery: &Recovery| recovery.displaces && recovery.fault.reason == Reason::NodeUnhealthy;
    let first = recoveries.iter().find(|recovery| is_eviction(recovery));
    let Some(node) = first.and_then(|first| first.fault.node.clone()) else {
        return Vec::new();
    };
    let is_later = |recovery: &mut Recovery| {
        is_eviction(recovery) && recovery.fault.node.as_ref() != Some(&node)
    };
    recoveries.extract_if(.., is_later).collect()
}

impl Evaluation<'_> {
    /// Keeps the recoveries of slices that cannot return to their nodes only if enough other slices
    /// can replace them in the gang. Otherwise the gang must restart.
    pub(super) fn retain_replaceable(&self, recoveries: &mut Vec<Recovery>) {
        let restarted = self.restarted_pods(recoveries.iter());
        let is_lacking = |group: &TaskGroup| {
            let displaced = recoveries.iter().filter(|r| r.displaces);
            let displaced = displaced.filter(|r| r.fault.group == group.name);
            let starts = displaced.filter_map(|r| Some(group.slice_of(r.fault.index?)?.start));
            let starts: BTreeSet<u32> = starts.chain(self.displaced_slices(group)).collect();
            starts.len() > self.spare_slice_count(group, &restarted)
        };
        let groups = self.observed.spec.task_groups.iter();
        let lacking: BTreeSet<&str> = groups
            .filter(|group| group.has_slices() && is_lacking(group))
            .map(|group| group.name.as_str())
            .collect();
        recoveries.retain(|r| !(r.displaces && lacking.contains(r.fault.group.as_str())));
    }

    /// Returns the faults of restarting pods whose nodes no longer take pods.
    pub(super) fn newly_closed<'f>(&self, closed: &'f [Fault]) -> impl Iterator<Item = &'f Fault> {
        closed.iter().filter(|fault| !self.is_displaced(fault))
    }

    fn is_displaced(&self, fault: &Fault) -> bool {
        let index = fault.index;
        index.is_some_and(|index| self.awaited.is_displaced(&fault.group, index))
    }

    /// Returns the first of these faults whose slice has no replacement.
    pub(super) fn unreplaceable_fault(
        &self,
        closed: Vec<Fault>,
        recoveries: &[Recovery],
    ) -> Option<Fault> {
        let restarted = self.restarted_pods(recoveries);
        let is_restarted = |fault: &Fault| {
            let index = fault.index;
            index.is_some_and(|index| contains(&restarted, &fault.group, index))
        };
        let is_replaceable = |fault: &Fault| {
            let group = self.observed.spec.group(&fault.group);
            let fits = |g| self.displaced_slices(g).len() <= self.spare_slice_count(g, &restarted);
            self.is_displaced(fault) && group.is_some_and(fits)
        };
        let mut closed = closed.into_iter();
        closed.find(|fault| !is_restarted(fault) && !is_replaceable(fault))
    }

    /// Returns the slices of the gang that cannot return to their nodes and are not replaced yet.
    fn displaced_slices(&self, group: &TaskGroup) -> BTreeSet<u32> {
        let pods = self.gang_pods(group);
        let displaced = pods.filter(|index| self.awaited.is_displaced(&group.name, *index));
        let slices = displaced.filter_map(|index| group.slice_of(index));
        slices.map(|slice| slice.start).collect()
    }

    /// Returns the number of running slices outside the gang, without those that restart.
    fn spare_slice_count(&self, group: &TaskGroup, restarted: &PodsByGroup) -> usize {
        let Some(gang) = self.gang.get(group.name.as_str()) else {
            return 0;
        };
        let pods = self.attempt_pods.pods();
        let staying = pods.filter(|pod| !contains(restarted, &pod.group, pod.index));
        running_spare_slices(group, gang, staying).len()
    }
}

fn contains(pods: &PodsByGroup, group: &str, index: u32) -> bool {
    let indexes = pods.get(group);
    indexes.is_some_and(|indexes| indexes.contains(&index))
}
