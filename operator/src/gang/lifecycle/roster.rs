//! The pods of the attempt that a job is at. A job may have thousands: they are gone through once,
//! and whoever asks about them asks here.

use std::collections::HashSet;

use super::Evaluation;
use crate::gang::observed::{PodPhase, PodView};

/// A pod with its name.
pub(crate) type Named<'a> = (&'a str, &'a PodView);

/// The pods of the current attempt, without those in whose place others are awaited.
#[derive(Debug, Default)]
pub(super) struct Roster<'a> {
    /// Those that are part of the gang.
    pub(super) gang: Part<'a>,
    /// Those that it can do without.
    pub(super) surplus: Part<'a>,
    /// Where they are.
    pub(super) nodes: HashSet<&'a str>,
}

/// Some of them.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    /// By name.
    pub(super) pods: Vec<Named<'a>>,
    /// How many of them do what.
    pub(super) tally: Tally,
}

/// Pods by what they do.
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
    /// All of them: those of the gang, then the others.
    pub(super) fn pods(&self) -> impl Iterator<Item = &'a PodView> {
        let all = self.gang.pods.iter().chain(&self.surplus.pods);
        all.map(|(_, pod)| *pod)
    }

    /// How many of all of them do what.
    pub(super) fn tally(&self) -> Tally {
        self.gang.tally.and(self.surplus.tally)
    }
}

/// The nodes that pods are on. Those whose names follow each other are often on one.
pub(super) fn nodes_of<'a>(pods: impl Iterator<Item = &'a PodView>) -> HashSet<&'a str> {
    let mut nodes: Vec<&str> = pods.filter_map(|pod| pod.node.as_deref()).collect();
    nodes.dedup();
    nodes.into_iter().collect()
}

impl<'a> Evaluation<'a> {
    /// Who is of the current attempt, as it is and as pods are awaited.
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

    /// True of a pod that is not part of the gang.
    fn is_surplus(&self, pod: &PodView) -> bool {
        let group = self.o.spec.group(&pod.group);
        group.is_none_or(|group| pod.index >= group.gang_size())
    }
}
