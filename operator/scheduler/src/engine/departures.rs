//! Who is on the way out: what it holds, and by when that is free. Nobody need make
//! room where somebody leaves anyway, and nobody's place is lost while it is only
//! not free yet: whoever plans, asks for room or waits for it reads it here.
//!
//! A gang that was told to leave has its grace to stop. Until it has, it holds its nodes,
//! and its quota against all but those who follow it. Pods of a gang that has its place
//! no longer go on until they are gone, as do others of which it is told that they leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::placed::{Part, Standing};
use super::{Engine, Stage};
use crate::backfill::Leaver;
use crate::ids::{GangId, PodKey};
use crate::placement::Hold;
use crate::queueing::Signal;
use crate::state::{Catalog, GangIdx};
use crate::time::Time;

/// Who is on the way out.
#[derive(Debug, Default)]
pub(super) struct Departures {
    gangs: BTreeSet<GangIdx>,
    /// Pods that are no placed gang's, and by when they are to be gone.
    pods: BTreeMap<PodKey, Time>,
    by_time: BTreeSet<(Time, PodKey)>,
}

impl Departures {
    pub(super) fn pod_leaves(&mut self, pod: PodKey, by: Time) {
        self.pod_stays(&pod);
        self.by_time.insert((by, pod.clone()));
        self.pods.insert(pod, by);
    }

    /// It is gone, or a placed gang's. Says whether it was on the way out.
    pub(super) fn pod_stays(&mut self, pod: &PodKey) -> bool {
        let Some(by) = self.pods.remove(pod) else {
            return false;
        };
        self.by_time.remove(&(by, pod.clone()));
        true
    }

    /// Whether any gang is.
    pub(super) fn has_gangs(&self) -> bool {
        !self.gangs.is_empty()
    }

    /// By when a pod is to be gone. None: it does not leave, or with its gang.
    pub(super) fn of_pod(&self, pod: &PodKey) -> Option<Time> {
        self.pods.get(pod).copied()
    }

    fn pods(&self, now: Time) -> impl Iterator<Item = (Option<Time>, &PodKey)> {
        let is_late = move |by: &Time| *by < now;
        let known = self.by_time.iter().filter(move |(by, _)| !is_late(by));
        let late = self.by_time.iter().take_while(move |(by, _)| is_late(by));
        known
            .map(|(by, pod)| (Some(*by), pod))
            .chain(late.map(|(_, pod)| (None, pod)))
    }
}

/// What is held of a node there.
pub(super) fn hold(part: &Part, catalog: &Catalog) -> Hold {
    Hold {
        node: part.node,
        demand: catalog.demand(part.demand),
        pods: part.pods,
        held: true,
    }
}

impl Engine {
    /// A placed gang gives up its quota; its nodes follow when its pods are gone.
    pub(super) fn leave(&mut self, at: GangIdx) {
        let Some(state) = self.state_mut(at) else {
            return;
        };
        state.preempted = true;
        let Stage::Placed(placed) = &state.stage else {
            return;
        };
        if placed.standing.is_leaving() {
            return;
        }
        self.leave_since(at, self.now);
    }

    /// A placed gang is on the way out since then. Its quota is others' to plan with, and
    /// nobody's to run on before it has left.
    pub(super) fn leave_since(&mut self, at: GangIdx, since: Time) {
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return;
        };
        let gang = Arc::clone(&placed.gang);
        let shape = Arc::clone(&placed.shape);
        // A gang that others make room for may count on what leaves from now on.
        self.raise(shape.total.iter().copied(), Signal::Freed);
        let drawn = self.limits.drawn(at);
        let charged = self.give_quota_back(&gang.queue, at);
        self.queues.leaves(at, &gang.id, &gang.queue, &charged);
        self.limits.leaves(at, drawn);
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = Standing::Leaving { charged, since };
            self.nominated.remove(&at);
            self.departures.gangs.insert(at);
            self.end_has_moved(at);
        }
    }

    /// A gang has its place no longer, or stays there: nobody waits for it to leave,
    /// or for who gets its number.
    pub(super) fn has_left(&mut self, gone: GangIdx) {
        self.departures.gangs.remove(&gone);
    }

    /// A gang that was told to leave stays: it has its quota again, whatever that
    /// says, and is no victim before then. Nothing happens to one that does not leave.
    pub fn stay(&mut self, gang: &GangId, until: Time) {
        let Some(&at) = self.ids.get(gang) else {
            return;
        };
        let Some(placed) = self.placed_mut(at).filter(|p| p.standing.is_leaving()) else {
            return;
        };
        let standing = std::mem::take(&mut placed.standing);
        placed.protected = Some(until);
        let gang = Arc::clone(&placed.gang);
        let held = placed.shape.total.clone();
        if let Standing::Leaving { charged, .. } = standing {
            self.queues.has_left(at);
            self.limits.has_left(at);
            self.take_quota(at, &gang, charged);
        }
        self.has_left(at);
        self.end_has_moved(at);
        // Who counted on its room looks for other.
        self.raise(held.iter().copied(), Signal::Freed);
    }

    /// A pod is no longer a placed gang's, if it is there, and on the way out.
    pub(super) fn disown(&mut self, pod: PodKey, by: Time) {
        if let Some(seen) = self.pods.get_mut(&pod)
            && std::mem::take(&mut seen.held)
        {
            let seen = *seen;
            let demand = self.catalog.demand(seen.demand);
            self.nodes.set_held(seen.node, &demand, -1);
            self.departures.pod_leaves(pod, by);
        }
    }

    /// A pod that has been seen, and is no placed gang's, is on the way out: it is
    /// to be gone by then. What it holds counts until it is deleted, and others
    /// plan with its end. Pods of a gang that gave up its place, or is deleted, are
    /// known to leave, by the gang's grace.
    pub fn pod_leaves(&mut self, pod: &PodKey, by: Time) {
        let is_others = self.pods.get(pod).is_some_and(|seen| !seen.held);
        if is_others && self.departures.of_pod(pod) != Some(by) {
            self.departures.pod_leaves(pod.clone(), by);
            self.backfill.disturb();
        }
    }

    /// What is on the way out already, so that others may follow; of what leaves a place
    /// that is kept only those for whom it is.
    pub(super) fn going(&self, follower: &GangId) -> Vec<Hold> {
        let gangs = self.departures.gangs.iter();
        let mut going: Vec<Hold> = Vec::new();
        for gang in gangs {
            if let Some(Stage::Placed(placed)) = self.state(*gang).map(|s| &s.stage) {
                let parts = placed.parts(&self.pods);
                going.extend(parts.iter().map(|part| hold(part, &self.catalog)));
            }
        }
        let pods = self.pods_that_leave().into_iter();
        going.extend(pods.flat_map(|leaver| leaver.holds));
        let own = self.ids.get(follower).and_then(|at| self.keeps.get(*at));
        let own = own.into_iter().flat_map(|keep| keep.holds(&self.catalog));
        going.extend(own.filter(|hold| !hold.held));
        going
    }

    /// Pods that are no placed gang's and on the way out, in the order in which they
    /// are to be gone; those that should be already come last, and nobody knows when
    /// they are. Room that is kept becomes free later.
    pub(super) fn pods_that_leave(&self) -> Vec<Leaver> {
        let pods = self.departures.pods(self.now).filter_map(|(end, pod)| {
            let seen = self.pods.get(pod)?;
            if self.keeps.of_pod(pod).is_some() {
                return None;
            }
            let hold = Hold {
                node: seen.node,
                demand: self.catalog.demand(seen.demand),
                pods: 1,
                held: seen.held,
            };
            Some(Leaver {
                end,
                holds: SmallVec::from_iter([hold]),
            })
        });
        pods.collect()
    }
}
