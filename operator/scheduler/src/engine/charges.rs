//! Charges of gangs to their queues and to the limits that they draw on. A gang is charged,
//! nominated or leaving in both alike, so the functions here change both together.

use std::sync::Arc;

use super::Engine;
use crate::gang::Gang;
use crate::ids::{LimitName, QueueName};
use crate::limits::LimitLedger;
use crate::queueing::{Blockage, LiftedCharge, NominatedRoom, Signal, WakeCondition};
use crate::quota::Demand;
use crate::state::GangIdx;

/// The charge of a gang that a caller has lifted for a short time.
#[derive(Debug)]
pub(super) struct LiftedCharges {
    quota: Option<LiftedCharge>,
    limits: Vec<(LimitName, i128)>,
}

impl Engine {
    /// Charges a gang to its queue, and to the limits that it draws on.
    pub(super) fn charge_gang(&mut self, at: GangIdx, gang: &Gang, demand: Demand) {
        let root = self.queues.root(&gang.queue);
        for (what, amount) in demand.iter() {
            self.scheduling_queue
                .raise(&Signal::QuotaTaken(root.clone(), what), amount);
        }
        self.charge_limits(at, gang, &demand);
        let begins = self.queues.charge(at, gang, demand, &mut self.catalog);
        let limited = self.queues.is_limited(&gang.queue);
        for what in begins {
            let root = limited.then(|| root.clone());
            self.scheduling_queue.raise(&Signal::Borrows(root, what), 1);
        }
    }

    /// Releases the charge of a gang, or the amounts that a leaving gang still holds. Returns the
    /// charge, which is empty for a leaving gang.
    pub(super) fn release_charge(&mut self, queue: &QueueName, at: GangIdx) -> Demand {
        self.release_limits(at);
        let root = self.queues.root(queue);
        let demand = self.queues.discharge(queue, at);
        // A leaving gang has no regular charge any more. It held this charge until now.
        let left = self.queues.finish_leaving(at).unwrap_or_default();
        for (what, amount) in demand.iter().chain(left.iter()) {
            self.scheduling_queue
                .raise(&Signal::QuotaFreed(root.clone(), what), amount);
        }
        demand
    }

    /// Records that a gang without a charge still holds these amounts until it has left.
    pub(super) fn start_leaving_charge(
        &mut self,
        at: GangIdx,
        gang: &Gang,
        charged: &Demand,
        drawn: Vec<(LimitName, i128)>,
    ) {
        self.queues
            .start_leaving(at, &gang.id, &gang.queue, charged);
        self.limits.start_leaving(at, drawn);
    }

    /// Charges a gang again that does not leave after all.
    pub(super) fn restore_charge(&mut self, at: GangIdx, gang: &Gang, charged: Demand) {
        self.queues.finish_leaving(at);
        self.limits.finish_leaving(at);
        self.charge_gang(at, gang, charged);
    }

    /// Records that a charged gang starts only when its victims have left.
    pub(super) fn mark_charge_nominated(&mut self, at: GangIdx, gang: &Gang) {
        self.queues.mark_nominated(at, &gang.id, &gang.queue);
        self.limits.mark_nominated(at);
    }

    /// Ends the nomination of a gang that starts now.
    pub(super) fn end_nomination(&mut self, at: GangIdx, gang: &Gang) {
        let root = self.queues.root(&gang.queue);
        let charged = self.queues.start_running(at).unwrap_or_default();
        for (what, amount) in charged.iter() {
            let taken = Signal::QuotaTaken(root.clone(), what);
            self.scheduling_queue.raise(&taken, amount);
        }
        self.scheduling_queue
            .raise_all(self.limits.start_running(at));
    }

    /// Returns if quota and limits have room for a nominated gang: now, later or never.
    pub(super) fn nominated_room(&mut self, at: GangIdx) -> NominatedRoom {
        let quota = self.queues.nominated_room(at);
        let draws = self.gangs.get(at).map(|state| state.gang.draws.as_slice());
        let limits = draws.map(|draws| self.limits.nominated_room(at, draws));
        limits.map_or(quota, |limits| limits.max(quota))
    }

    /// Lifts the charge of a gang for a short time.
    pub(super) fn lift_charge(&mut self, at: GangIdx, queue: &QueueName) -> LiftedCharges {
        LiftedCharges {
            quota: self.queues.lift_charge(queue, at),
            limits: self.limits.lift_charge(at),
        }
    }

    /// Puts back the charge that [`Self::lift_charge`] returned.
    pub(super) fn put_back_charge(&mut self, at: GangIdx, lifted: LiftedCharges) {
        if let Some(quota) = lifted.quota {
            self.queues.put_back_charge(quota);
        }
        self.limits.put_back_charge(at, lifted.limits);
    }

    /// Checks that the limits that a gang draws on have room for its charge.
    pub(super) fn check_limits(&self, gang: &Gang, demand: &Demand) -> Result<(), Box<Blockage>> {
        let named = |at| Some(self.gangs.get(at)?.gang.id.clone());
        let names = (&self.catalog, self.queues.flavors());
        self.limits.admit(gang, demand, names, named)
    }

    /// Adds to `wake` the signals after which a limit may become the reason to wait.
    pub(super) fn watch_limits(&self, gang: &Gang, demand: &Demand, wake: &mut WakeCondition) {
        let names = (&self.catalog, self.queues.flavors());
        self.limits.watch(gang, demand, names, wake);
    }

    /// Charges a gang, in its placed form, to the limits that it draws on now.
    fn charge_limits(&mut self, at: GangIdx, placed: &Gang, demand: &Demand) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let names = (&self.catalog, self.queues.flavors());
        let draws = (state.gang.draws.as_slice(), placed);
        let taken = self.limits.charge(at, draws, demand, names);
        self.scheduling_queue.raise_all(taken);
    }

    /// Releases the charge of a gang to its limits, if there is one.
    fn release_limits(&mut self, at: GangIdx) {
        let mut freed = self.limits.discharge(at);
        freed.extend(self.limits.finish_leaving(at));
        self.scheduling_queue.raise_all(freed);
    }

    /// Charges a gang that is placed or has a kept place again, after its limits have changed.
    pub(super) fn recharge_limits(&mut self, at: GangIdx) {
        let gang = match (self.gangs.placed(at), self.kept_places.get(at)) {
            (Some(placed), _) => Arc::clone(&placed.gang),
            (_, Some(keep)) => Arc::clone(&keep.gang),
            _ => return,
        };
        let Some(held) = self.queues.shared_charge(&gang.queue, at) else {
            self.recharge_leaving(at, &gang);
            return;
        };
        self.release_limits(at);
        self.charge_limits(at, &gang, &held);
        if self.gangs.is_nominated(at) {
            self.limits.mark_nominated(at);
        }
    }

    /// Does the same for a leaving gang.
    fn recharge_leaving(&mut self, at: GangIdx, placed: &Gang) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let leaving = state
            .placed()
            .and_then(|place| place.state().leaving_charge());
        let Some((charged, _)) = leaving else {
            return;
        };
        let names = (&self.catalog, self.queues.flavors());
        let drawn = LimitLedger::drawn_amounts((&state.gang.draws, placed), charged, names);
        let mut signals = self.limits.finish_leaving(at);
        let taken = drawn.iter().cloned();
        signals.extend(taken.map(|(limit, amount)| (Signal::LimitTaken(limit), amount)));
        self.limits.start_leaving(at, drawn);
        self.scheduling_queue.raise_all(signals);
    }
}
