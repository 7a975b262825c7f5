//! Lifts a kept place: while its gang is tried, the place counts as free for that gang only.

use super::super::Engine;
use super::super::charges::LiftedCharges;
use crate::backfill::QuotaHeadsAside;
use crate::placement::UndoLog;
use crate::queueing::Signal;
use crate::state::GangIdx;

/// The lifted place of a gang. The caller must put it back or spend it.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) struct LiftedPlace {
    at: GangIdx,
    log: UndoLog,
    charges: LiftedCharges,
    /// The quota heads as computed with the kept place charged.
    heads: QuotaHeadsAside,
}

impl Engine {
    /// Lifts the place that is kept for a gang, if there is one.
    pub(in crate::engine) fn lift_place(&mut self, at: GangIdx) -> Option<Box<LiftedPlace>> {
        if !self.kept_places.contains(at) {
            return None;
        }
        if self.reservations.is_stale() {
            // Other gangs' reservations must be computed with the kept place still charged.
            self.renew_heads();
        }
        let keep = self.kept_places.get(at)?;
        let mut log = UndoLog::default();
        for hold in keep
            .node_charges(&self.catalog)
            .iter()
            .filter(|hold| hold.in_placed_gang)
        {
            log.uncharge(&mut self.nodes, hold);
        }
        let queue = keep.gang.queue.clone();
        // Results with the lifted place do not hold for other gangs, nor do earlier results hold
        // for this gang.
        self.blockages.clear();
        Some(Box::new(LiftedPlace {
            at,
            log,
            charges: self.lift_charge(at, &queue),
            heads: self.reservations.set_quota_heads_aside(),
        }))
    }

    pub(in crate::engine) fn put_back_place(&mut self, lifted: Option<Box<LiftedPlace>>) {
        let Some(lifted) = lifted else { return };
        let mut log = self.take_back_charges(*lifted);
        log.roll_back(&mut self.nodes);
    }

    /// Ends keeping the place of a gang that has found one: the kept room becomes free for other
    /// gangs.
    pub(in crate::engine) fn spend_place(&mut self, lifted: Option<Box<LiftedPlace>>) {
        let Some(lifted) = lifted else { return };
        let at = lifted.at;
        // The nodes stay without the kept charges.
        drop(self.take_back_charges(*lifted));
        let Some(keep) = self.kept_places.remove(at) else {
            return;
        };
        for pod in &keep.pods {
            if pod.pod_is_gone {
                let demand = self.catalog.demand(pod.demand);
                self.raise_for_pods(&demand, 1, Signal::Freed);
            }
            self.release_pod_room(pod);
        }
        self.reservations
            .remove_end(at, &keep.gang.id, &keep.gang.queue);
        self.release_charge(&keep.gang.queue, at);
    }

    fn take_back_charges(&mut self, lifted: LiftedPlace) -> UndoLog {
        let LiftedPlace {
            at,
            log,
            charges,
            heads,
        } = lifted;
        self.put_back_charge(at, charges);
        self.reservations.put_back_quota_heads(heads);
        self.blockages.clear();
        log
    }
}
