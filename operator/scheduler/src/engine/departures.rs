//! Departures: gangs and pods that are leaving, what they hold, and when that becomes free. The
//! engine preempts no gang for room that becomes free anyway, and a gang does not lose its place
//! just because the place is not free yet. Planning, preemption and nomination therefore all read
//! this list.
//!
//! A gang that was told to leave has a grace period to stop. Until it has stopped it holds its
//! nodes, and its quota against all gangs except its preemptor. Pods of a gang that is no longer
//! placed run on until they are gone, as do other pods that are reported as leaving.

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

/// The gangs and pods that are leaving.
#[derive(Debug, Default)]
pub(super) struct Departures {
    gangs: BTreeSet<GangIdx>,
    /// Leaving pods that belong to no placed gang, with the time at which they should be gone.
    pods: BTreeMap<PodKey, Time>,
    by_time: BTreeSet<(Time, PodKey)>,
}

impl Departures {
    pub(super) fn pod_leaves(&mut self, pod: PodKey, by: Time) {
        self.pod_stays(&pod);
        self.by_time.insert((by, pod.clone()));
        self.pods.insert(pod, by);
    }

    /// The pod is gone, or belongs to a placed gang. Returns true if it was leaving.
    pub(super) fn pod_stays(&mut self, pod: &PodKey) -> bool {
        let Some(by) = self.pods.remove(pod) else {
            return false;
        };
        self.by_time.remove(&(by, pod.clone()));
        true
    }

    /// True if a gang is leaving.
    pub(super) fn has_gangs(&self) -> bool {
        !self.gangs.is_empty()
    }

    /// When a pod should be gone. None: it does not leave, or it leaves with its gang.
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

/// The usage of a node by a part of a gang.
pub(super) fn hold(part: &Part, catalog: &Catalog) -> Hold {
    Hold {
        node: part.node,
        demand: catalog.demand(part.demand),
        pods: part.pods,
        held: true,
    }
}

impl Engine {
    /// Makes a placed gang give up its quota. Its nodes follow when its pods are gone.
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

    /// A placed gang leaves since `since`. Other gangs may plan with its quota, but run on it only
    /// after the gang has left.
    pub(super) fn leave_since(&mut self, at: GangIdx, since: Time) {
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return;
        };
        let gang = Arc::clone(&placed.gang);
        let shape = Arc::clone(&placed.shape);
        // A preemptor may count on this room from now on.
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

    /// The gang is no longer placed, or stays after all: no gang waits for it to leave, nor for a
    /// gang that gets its number.
    pub(super) fn has_left(&mut self, gone: GangIdx) {
        self.departures.gangs.remove(&gone);
    }

    /// Cancels the departure of a gang. It gets its quota back, whatever the quota says, and cannot
    /// be a victim before `until`. Does nothing if the gang is not leaving.
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
        // Gangs that counted on its room look for other room.
        self.raise(held.iter().copied(), Signal::Freed);
    }

    /// A pod no longer belongs to a placed gang; if it exists, it is leaving.
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

    /// Reports that a pod is leaving and should be gone at `by`. The pod must have been seen and
    /// belong to no placed gang. It counts until it is deleted, but other gangs plan with its end.
    /// Pods of a gang that gave up its place or was deleted are known to leave within the gang's
    /// grace period.
    pub fn pod_leaves(&mut self, pod: &PodKey, by: Time) {
        let is_others = self.pods.get(pod).is_some_and(|seen| !seen.held);
        if is_others && self.departures.of_pod(pod) != Some(by) {
            self.departures.pod_leaves(pod.clone(), by);
            self.backfill.disturb();
        }
    }

    /// Usage that is already leaving, so that `follower` may take its place. Pods that leave a kept
    /// place count only for the gang that it is kept for.
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

    /// Leaving pods that belong to no placed gang, by when they should be gone. Pods that should be
    /// gone already come last, because their end is unknown. Pods of a kept place are left out:
    /// their room becomes free later.
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
