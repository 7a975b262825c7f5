//! Deleted gangs whose pods are still stopping. Each pod holds its own part of its node until it is
//! gone. Quota and limits stay charged as a whole until the last pod is gone. A deleted gang has a
//! number of its own, because a new gang of the same name is another gang.

use std::sync::Arc;

use super::super::Engine;
use super::super::kept_places::KeptPlace;
use crate::backfill::RunTerm;
use crate::gang::Gang;
use crate::ids::{GangId, LimitName, PodKey};
use crate::quota::Demand;
use crate::state::GangIdx;
use crate::time::Time;

/// Quota, limits and pods of a gang to delete.
pub(in crate::engine) struct DeletedGang {
    pub(in crate::engine) gang: Arc<Gang>,
    pub(in crate::engine) charged: Demand,
    pub(in crate::engine) drawn: Vec<(LimitName, i128)>,
    /// Its pods that still exist.
    pub(in crate::engine) pods: Vec<PodKey>,
    /// When they should be gone.
    pub(in crate::engine) gone_by: Time,
}

impl Engine {
    /// Deletes a gang as [`Self::delete_gang`] does, but keeps its quota and limits charged until
    /// the last of its known pods is gone.
    pub fn retire_gang(&mut self, gang: &GangId) {
        let held = self.gangs.find(gang).and_then(|at| self.deleted_gang(at));
        self.delete_gang(gang);
        if let Some(held) = held {
            self.add_stopping(held);
        }
    }

    /// Returns quota, limits and pods of a gang with existing pods, for its place or its kept
    /// place.
    pub(in crate::engine) fn deleted_gang(&self, at: GangIdx) -> Option<DeletedGang> {
        if let Some(keep) = self.kept_places.get(at) {
            return self.deleted_gang_of_kept_place(at, keep);
        }
        let placed = self.gangs.placed(at)?;
        let gang = &placed.gang;
        let groups = gang.groups.iter().zip(&placed.groups);
        let settled = groups.flat_map(|(group, planned)| {
            let settled = planned.confirmed();
            settled.map(|index| gang.pod_key(group, index))
        });
        let is_there = |pod: &PodKey| self.pods.get(pod).is_some_and(|seen| seen.in_placed_gang);
        let pods: Vec<PodKey> = settled.filter(is_there).collect();
        let grace = self
            .gangs
            .get(at)
            .map_or(gang.grace, |state| state.gang.grace);
        let (charged, drawn, since) = match placed.state().leaving_charge() {
            Some((charged, since)) => (charged.clone(), self.limits.leaving_amounts(at), since),
            None => (
                self.charged_demand(at, gang),
                self.limits.charged_amounts(at),
                self.now,
            ),
        };
        (!pods.is_empty()).then(|| DeletedGang {
            gang: Arc::clone(gang),
            charged,
            drawn,
            pods,
            gone_by: since.plus(grace),
        })
    }

    fn deleted_gang_of_kept_place(&self, at: GangIdx, keep: &KeptPlace) -> Option<DeletedGang> {
        // Its pods on nodes that are not kept stop, too. A pod of its name may be of an earlier gang.
        let stops = |key: &PodKey| self.pods.get(key).is_some() && !self.pods.is_stopping(key);
        let pods: Vec<PodKey> = keep.gang.pod_keys().filter(stops).collect();
        (!pods.is_empty()).then(|| DeletedGang {
            gang: Arc::clone(&keep.gang),
            charged: self.charged_demand(at, &keep.gang),
            drawn: self.limits.charged_amounts(at),
            pods,
            gone_by: keep.pods_gone_by,
        })
    }

    fn charged_demand(&self, at: GangIdx, gang: &Gang) -> Demand {
        let charge = self.queues.shared_charge(&gang.queue, at);
        charge
            .map(|charge| Demand::clone(&charge))
            .unwrap_or_default()
    }

    /// Adds a deleted gang whose pods are still stopping, with the charges that it held.
    pub(in crate::engine) fn add_stopping(&mut self, held: DeletedGang) -> GangIdx {
        let DeletedGang {
            gang,
            charged,
            drawn,
            pods,
            gone_by: by,
        } = held;
        let shape = Arc::new(self.catalog.acquire_shape(&gang));
        let count = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        let at = self
            .gangs
            .insert_stopping(Arc::clone(&gang), shape, count, by);
        for pod in pods {
            self.pods.mark_stopping(pod, at);
        }
        self.start_leaving_charge(at, &gang, &charged, drawn);
        let term = RunTerm::stopping_until(by);
        let queue = gang.queue.clone();
        self.reservations
            .insert_end(at, &gang.id, queue, term, self.now);
        self.reservations.mark_stale();
        at
    }

    /// Counts a pod of a deleted gang as gone, because it is gone or now belongs to a placed gang.
    pub(in crate::engine) fn count_stopped_pod(&mut self, at: GangIdx) {
        if self.gangs.count_stopped_pod(at) {
            self.finish_stopping(at);
        }
    }

    /// Removes a deleted gang whose last pod is gone.
    fn finish_stopping(&mut self, at: GangIdx) {
        let Some(state) = self.gangs.remove(at) else {
            return;
        };
        let (id, queue) = (&state.gang.id, &state.gang.queue);
        self.release_charge(queue, at);
        self.reservations.remove_end(at, id, queue);
        self.drop_shape(&state.shape);
    }
}
