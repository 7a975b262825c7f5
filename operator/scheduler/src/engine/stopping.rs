//! Deleted gangs whose pods still stop. Each pod holds its own part of its node until it is gone.
//! Quota and limits stay charged as a whole until the last pod is gone. Such a gang has a number of
//! its own, because a new gang of the same name is another gang.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Engine, GangState, Stage};
use crate::backfill::Term;
use crate::gang::Gang;
use crate::ids::{GangId, LimitName, PodKey};
use crate::queueing::Signal;
use crate::quota::Demand;
use crate::state::GangIdx;
use crate::time::Time;

/// The gang of each pod that still stops.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    pods: HashMap<PodKey, GangIdx>,
}

impl Stopping {
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The pods, each with its gang.
    pub(super) fn pods(&self) -> impl Iterator<Item = (&PodKey, GangIdx)> {
        self.pods.iter().map(|(pod, at)| (pod, *at))
    }
}

/// Quota, limits and pods of a gang that is deleted.
pub(super) struct Held {
    pub(super) gang: Arc<Gang>,
    pub(super) charged: Demand,
    pub(super) drawn: Vec<(LimitName, i128)>,
    /// Its pods that still exist.
    pub(super) pods: Vec<PodKey>,
    /// When they should be gone.
    pub(super) by: Time,
}

impl Engine {
    /// Deletes a gang as [`Self::delete_gang`] does, but keeps its quota and limits charged until
    /// the last of its known pods is gone.
    pub fn retire_gang(&mut self, gang: &GangId) {
        let held = self.ids.get(gang).and_then(|at| self.held_with_pods(*at));
        self.delete_gang(gang);
        if let Some(held) = held {
            self.stops(held);
        }
    }

    /// Quota, limits and pods of a gang with existing pods, for its place or for the place that is
    /// kept for it.
    pub(super) fn held_with_pods(&self, at: GangIdx) -> Option<Held> {
        if let Some(keep) = self.keeps.get(at) {
            return self.held_of_keep(at, keep);
        }
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return None;
        };
        let gang = &placed.gang;
        let groups = gang.groups.iter().zip(&placed.groups);
        let settled = groups.flat_map(|(group, planned)| {
            let settled = planned.settled();
            settled.map(|index| gang.pod_key(group, index))
        });
        let is_there = |pod: &PodKey| self.pods.get(pod).is_some_and(|seen| seen.held);
        let pods: Vec<PodKey> = settled.filter(is_there).collect();
        let grace = self.state(at).map_or(gang.grace, |state| state.gang.grace);
        let (charged, drawn, since) = match placed.standing.charged() {
            Some((charged, since)) => (charged.clone(), self.limits.left_by(at), since),
            None => (self.charge_of(at, gang), self.limits.drawn(at), self.now),
        };
        (!pods.is_empty()).then(|| Held {
            gang: Arc::clone(gang),
            charged,
            drawn,
            pods,
            by: since.plus(grace),
        })
    }

    fn held_of_keep(&self, at: GangIdx, keep: &super::keeping::Keep) -> Option<Held> {
        let going = keep.pods.iter().filter(|pod| !pod.held);
        let pods: Vec<PodKey> = going.map(|pod| pod.key.clone()).collect();
        (!pods.is_empty()).then(|| Held {
            gang: Arc::clone(&keep.gang),
            charged: self.charge_of(at, &keep.gang),
            drawn: self.limits.drawn(at),
            pods,
            by: keep.by,
        })
    }

    fn charge_of(&self, at: GangIdx, gang: &Gang) -> Demand {
        let charge = self.queues.charge_of(&gang.queue, at);
        charge
            .map(|charge| Demand::clone(&charge))
            .unwrap_or_default()
    }

    /// Adds a deleted gang that held this and whose pods still stop.
    pub(super) fn stops(&mut self, held: Held) -> GangIdx {
        let Held {
            gang,
            charged,
            drawn,
            pods,
            by,
        } = held;
        let (id, queue) = (gang.id.clone(), gang.queue.clone());
        let state = GangState {
            shape: Arc::new(self.catalog.acquire_shape(&gang)),
            gang,
            ways: None,
            not_before: None,
            preempted: false,
            idle: true,
            told: None,
            stage: Stage::Stopping {
                pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
                by,
            },
        };
        let at = GangIdx::of(self.gangs.insert(state));
        for pod in pods {
            self.stopping.pods.insert(pod, at);
        }
        self.queues.leaves(at, &id, &queue, &charged);
        self.limits.leaves(at, drawn);
        self.ends(at, &id, queue, Term::stops_by(by));
        self.backfill.disturb();
        at
    }

    /// The pod is gone, or belongs to a placed gang: it no longer stops.
    pub(super) fn pod_stays(&mut self, pod: &PodKey) {
        self.departures.pod_stays(pod);
        let Some(at) = self.stopping.pods.remove(pod) else {
            return;
        };
        let Some(state) = self.state_mut(at) else {
            return;
        };
        if let Stage::Stopping { pods, .. } = &mut state.stage {
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                self.has_stopped(at);
            }
        }
    }

    /// The last pod of a deleted gang is gone.
    fn has_stopped(&mut self, at: GangIdx) {
        let Some(state) = self.gangs.remove(at.at()) else {
            return;
        };
        let (id, queue) = (&state.gang.id, &state.gang.queue);
        let root = self.queues.root(queue);
        let left = self.queues.has_left(at).unwrap_or_default();
        for (what, amount) in left.iter() {
            self.parking
                .raise(&Signal::QuotaFreed(root.clone(), what), amount);
        }
        let freed = self.limits.has_left(at);
        self.tell_all(freed);
        self.has_ended(at, id, queue);
        self.drop_shape(&state.shape);
    }
}
