//! The pods of the current attempt. A job may have thousands, so they are sorted once, and all
//! checks use the result.

use std::collections::HashSet;

use super::Evaluation;
use crate::observed::{PodPhase, PodView};

/// A pod with its name.
pub(crate) type Named<'a> = (&'a str, &'a PodView);

/// The pods of the current attempt, without those whose replacement is awaited.
#[derive(Debug, Default)]
pub(super) struct Roster<'a> {
    /// Pods that are part of the gang.
    pub(super) gang: Part<'a>,
    /// Surplus pods.
    pub(super) surplus: Part<'a>,
    /// Nodes of the pods.
    pub(super) nodes: HashSet<&'a str>,
}

/// Either the gang's pods or the surplus pods.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    /// Pods by name.
    pub(super) pods: Vec<Named<'a>>,
    /// Number of pods by phase.
    pub(super) tally: Tally,
}

/// Number of pods by phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
}

impl Tally {
    fn count(&mut self, phase: &PodPhase) {
        let those = match phase {
            PodPhase::Pending => &mut self.pending,
            PodPhase::Running => &mut self.running,
            PodPhase::Succeeded => &mut self.succeeded,
            PodPhase::Refused { .. } | PodPhase::Failed { .. } => &mut self.failed,
        };
        *those = those.saturating_add(1);
    }

    fn and(self, other: Self) -> Self {
        Self {
            pending: self.pending.saturating_add(other.pending),
            running: self.running.saturating_add(other.running),
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

impl<'a> Part<'a> {
    fn take(&mut self, named: Named<'a>) {
        self.tally.count(&named.1.phase);
        self.pods.push(named);
    }
}

impl<'a> Roster<'a> {
    /// All pods: those of the gang first.
    pub(super) fn pods(&self) -> impl Iterator<Item = &'a PodView> {
        let all = self.gang.pods.iter().chain(&self.surplus.pods);
        all.map(|(_, pod)| *pod)
    }

    /// Number of all pods by phase.
    pub(super) fn tally(&self) -> Tally {
        self.gang.tally.and(self.surplus.tally)
    }
}

/// The nodes of these pods. Pods with consecutive names are often on one node.
pub(super) fn nodes_of<'a>(pods: impl Iterator<Item = &'a PodView>) -> HashSet<&'a str> {
    let mut nodes: Vec<&str> = pods.filter_map(|pod| pod.node.as_deref()).collect();
    nodes.dedup();
    nodes.into_iter().collect()
}

impl<'a> Evaluation<'a> {
    /// Collects the pods of the current attempt, without those whose replacement is awaited.
    pub(super) fn muster(&self) -> Roster<'a> {
        let mut roster = Roster::default();
        roster.gang.pods.reserve(self.own.len());
        let attempt = self.attempt();
        let of_now = self.own.iter().filter(|(_, pod)| pod.attempt == attempt);
        for named in of_now.filter(|(_, pod)| !self.awaited.is_old(pod)) {
            let part = match self.is_surplus(named.1) {
                true => &mut roster.surplus,
                false => &mut roster.gang,
            };
            part.take(*named);
        }
        roster.nodes = nodes_of(roster.pods());
        roster
    }

    /// True if the pod is not part of the gang.
    fn is_surplus(&self, pod: &PodView) -> bool {
        let group = self.o.spec.group(&pod.group);
        group.is_none_or(|group| pod.index >= group.gang_size())
    }
}
