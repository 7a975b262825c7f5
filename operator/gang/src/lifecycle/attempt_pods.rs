//! The pods of the current attempt. A job may have thousands, so they are sorted once, and all
//! checks use the result.

use std::collections::BTreeSet;

use trellis_api::job::TaskGroup;

use super::Evaluation;
use crate::GangIndexes;
use crate::observed::{PodPhase, PodView};

/// A pod with its name.
pub(crate) type NamedPod<'a> = (&'a str, &'a PodView);

/// The pods of the current attempt, without those whose replacement is awaited.
#[derive(Debug, Default)]
pub(super) struct AttemptPods<'a> {
    /// Pods that are part of the gang.
    pub(super) gang: CountedPods<'a>,
    /// Surplus pods.
    pub(super) surplus: CountedPods<'a>,
    /// Nodes of the pods.
    pub(super) nodes: BTreeSet<&'a str>,
}

/// Either the gang's pods or the surplus pods.
#[derive(Debug, Default)]
pub(super) struct CountedPods<'a> {
    /// Pods by name.
    pub(super) pods: Vec<NamedPod<'a>>,
    /// Number of pods by phase.
    pub(super) counts: PhaseCounts,
}

/// Number of pods by phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PhaseCounts {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
}

impl PhaseCounts {
    fn add(&mut self, phase: &PodPhase) {
        let those = match phase {
            PodPhase::Pending => &mut self.pending,
            PodPhase::Running => &mut self.running,
            PodPhase::Succeeded => &mut self.succeeded,
            PodPhase::Refused { .. } | PodPhase::Failed { .. } => &mut self.failed,
        };
        *those = those.saturating_add(1);
    }

    fn sum(self, other: Self) -> Self {
        Self {
            pending: self.pending.saturating_add(other.pending),
            running: self.running.saturating_add(other.running),
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

impl<'a> CountedPods<'a> {
    fn push(&mut self, named: NamedPod<'a>) {
        self.counts.add(&named.1.phase);
        self.pods.push(named);
    }
}

impl<'a> AttemptPods<'a> {
    /// Returns all pods: those of the gang first.
    pub(super) fn pods(&self) -> impl Iterator<Item = &'a PodView> {
        let all = self.gang.pods.iter().chain(&self.surplus.pods);
        all.map(|(_, pod)| *pod)
    }

    /// Returns the number of all pods by phase.
    pub(super) fn phase_counts(&self) -> PhaseCounts {
        self.gang.counts.sum(self.surplus.counts)
    }
}

/// Returns the nodes of these pods. Pods with consecutive names are often on one node.
pub(super) fn nodes_of<'a>(pods: impl Iterator<Item = &'a PodView>) -> BTreeSet<&'a str> {
    let mut nodes: Vec<&str> = pods.filter_map(|pod| pod.node.as_deref()).collect();
    nodes.dedup();
    nodes.into_iter().collect()
}

impl<'a> Evaluation<'a> {
    /// Collects the pods of the current attempt, without those whose replacement is awaited.
    pub(super) fn collect_attempt_pods(&self) -> AttemptPods<'a> {
        let mut roster = AttemptPods::default();
        roster.gang.pods.reserve(self.job_pods.len());
        let attempt = self.attempt();
        let of_now = self
            .job_pods
            .iter()
            .filter(|(_, pod)| pod.attempt == attempt);
        for named in of_now.filter(|(_, pod)| !self.awaited.is_replaced(pod)) {
            let part = match self.is_surplus(named.1) {
                true => &mut roster.surplus,
                false => &mut roster.gang,
            };
            part.push(*named);
        }
        roster.nodes = nodes_of(roster.pods());
        roster
    }

    /// Returns true if the pod is part of the gang.
    pub(super) fn is_part_of_gang(&self, group: &str, index: u32) -> bool {
        let indexes = self.gang.get(group);
        indexes.is_some_and(|indexes| indexes.contains(index))
    }

    /// Returns the indexes of the group's pods that are part of the gang.
    pub(super) fn gang_pods(&self, group: &TaskGroup) -> impl Iterator<Item = u32> {
        let indexes = self.gang.get(group.name.as_str());
        indexes.into_iter().flat_map(GangIndexes::iter)
    }

    /// Returns true if any pod of the gang is awaited.
    pub(super) fn awaits_gang_pods(&self) -> bool {
        self.awaited
            .has_pods_of(|group, index| self.is_part_of_gang(group, index))
    }

    /// Returns true if the pod is not part of the gang.
    fn is_surplus(&self, pod: &PodView) -> bool {
        !self.is_part_of_gang(&pod.group, pod.index)
    }
}
