//! Departures: gangs and pods that are leaving, the room and quota that they hold, and when these
//! become free. The engine preempts no gang for room that becomes free anyway. A gang does not lose
//! its place just because the place is not free yet. Planning, preemption and nomination therefore
//! all read this list.
//!
//! A leaving gang has a grace period to stop. Until it has stopped, it holds its nodes, and it
//! holds its quota against all gangs except its preemptor. Pods of a gang that is no longer placed
//! hold their room until they are gone. The same holds for other pods that are reported as leaving.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::Engine;
use super::super::gang_table::PlacedState;
use crate::backfill::Departure;
use crate::ids::{GangId, PodKey};
use crate::placement::NodeCharge;
use crate::queueing::Signal;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Makes a placed gang leave. It gives up its quota now, and its nodes when its pods are gone.
    pub(in crate::engine) fn start_leaving(&mut self, at: GangIdx) {
        let Some(state) = self.gangs.get_mut(at) else {
            return;
        };
        state.preempted = true;
        let placed = state.placed();
        if placed.is_some_and(|placed| !placed.state().is_leaving()) {
            self.start_leaving_since(at, self.now);
        }
    }

    /// Makes a placed gang leave, as of `since`. Other gangs may plan with its quota, but start on
    /// it only after the gang has left.
    pub(in crate::engine) fn start_leaving_since(&mut self, at: GangIdx, since: Time) {
        let Some(placed) = self.gangs.placed(at) else {
            return;
        };
        let gang = Arc::clone(&placed.gang);
        let shape = Arc::clone(&placed.shape);
        // From now on a preemptor may plan with this room.
        self.raise(shape.total.iter().copied(), Signal::Freed);
        let drawn = self.limits.charged_amounts(at);
        let charged = self.release_charge(&gang.queue, at);
        self.start_leaving_charge(at, &gang, &charged, drawn);
        let leaving = PlacedState::Leaving { charged, since };
        self.gangs.set_placed_state(at, leaving);
        self.update_end(at);
    }

    /// Cancels the departure of a gang. The gang gets its quota back, even above the limits, and
    /// cannot be a victim before `until`. Does nothing if the gang is not leaving.
    pub fn cancel_departure(&mut self, gang: &GangId, until: Time) {
        let Some(at) = self.gangs.find(gang) else {
            return;
        };
        let placed = self.gangs.placed_mut(at);
        let Some(placed) = placed.filter(|placed| placed.state().is_leaving()) else {
            return;
        };
        placed.protected_until = Some(until);
        let gang = Arc::clone(&placed.gang);
        let held = placed.shape.total.clone();
        let before = self.gangs.set_placed_state(at, PlacedState::Settled);
        if let Some(PlacedState::Leaving { charged, .. }) = before {
            self.restore_charge(at, &gang, charged);
        }
        self.update_end(at);
        // Gangs that planned with its room must find other room.
        self.raise(held.iter().copied(), Signal::Freed);
    }

    /// Detaches a pod from its placed gang. If the pod exists, it is leaving.
    pub(in crate::engine) fn detach_pod(&mut self, pod: &PodKey, by: Time) {
        if let Some(seen) = self.pods.detach(pod, by) {
            let demand = self.catalog.demand(seen.demand);
            self.nodes.mark_placed(seen.node, &demand, -1);
        }
    }

    /// Reports that a pod is leaving and should be gone at `by`. The pod must have been seen and
    /// belong to no placed gang. The pod counts until it is deleted, but the engine plans with its
    /// end. The caller need not report pods of a gang that was released or deleted: they leave
    /// within the gang's grace period.
    pub fn mark_pod_leaving(&mut self, pod: &PodKey, by: Time) {
        if self.pods.mark_leaving(pod, by) {
            self.reservations.mark_stale();
        }
    }

    /// Returns the usage of leaving gangs and pods, which `follower` may plan with. Pods that leave
    /// a kept place count only for the gang that the place is kept for.
    pub(in crate::engine) fn departing_usage(&self, follower: &GangId) -> Vec<NodeCharge> {
        let mut going: Vec<NodeCharge> = Vec::new();
        for placed in self.gangs.leaving() {
            let parts = placed.node_usages(self.pods.known());
            going.extend(parts.iter().map(|part| part.to_charge(&self.catalog)));
        }
        let pods = self.departing_pods().into_iter();
        going.extend(pods.flat_map(|leaver| leaver.charges));
        let own = self
            .gangs
            .find(follower)
            .and_then(|at| self.kept_places.get(at));
        let own = own
            .into_iter()
            .flat_map(|keep| keep.node_charges(&self.catalog));
        going.extend(own.filter(|hold| !hold.in_placed_gang));
        going
    }

    /// Returns the leaving pods that belong to no placed gang, ordered by when they should be gone.
    /// Overdue pods come last, because their end is unknown. Pods of a kept place are left out,
    /// because their room becomes free later.
    pub(in crate::engine) fn departing_pods(&self) -> Vec<Departure> {
        let pods = self.pods.leaving(self.now).filter_map(|(end, pod, seen)| {
            if self.kept_places.gang_of_pod(pod).is_some() {
                return None;
            }
            let hold = NodeCharge {
                node: seen.node,
                demand: self.catalog.demand(seen.demand),
                pods: 1,
                in_placed_gang: seen.in_placed_gang,
            };
            Some(Departure {
                end,
                charges: SmallVec::from_iter([hold]),
            })
        });
        pods.collect()
    }
}
