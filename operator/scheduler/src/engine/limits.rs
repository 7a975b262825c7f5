//! Limits outside queue quota.

use std::sync::Arc;

use super::Engine;
use crate::gang::Gang;
use crate::ids::{FlavorName, GangId, LimitName, ResourceName};
use crate::limits::{LimitClosure, LimitDraw, LimitLedger};
use crate::queueing::{Blockage, Signal, WakeCondition};
use crate::quota::Demand;
use crate::state::GangIdx;

impl Engine {
    /// Returns the usage of each limit in use, in base units, or as a number of gangs for limits on
    /// pending gangs. A gang is charged as a whole.
    pub fn limit_usage(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        self.limits
            .usage_by_limit()
            .chain(self.scheduling_queue.counts_by_limit())
    }

    /// Returns the charge of a gang to its queue for its place or kept place, by flavor and
    /// resource, in base units. None: it holds no quota, because it is pending or leaving.
    #[must_use]
    pub fn queue_charge(&self, gang: &GangId) -> Option<Vec<(FlavorName, ResourceName, i128)>> {
        let at = self.gangs.find(gang)?;
        let queue = match (self.gangs.placed(at), self.restart_places.get(at)) {
            (Some(placed), _) => &placed.gang.queue,
            (_, Some(keep)) => &keep.gang.queue,
            _ => return None,
        };
        let held = self.queues.gang_charge(queue, at)?;
        let flavors = self.queues.flavors();
        let named = held.iter().map(|(what, amount)| {
            let flavor = flavors.name(what.flavor).cloned().unwrap_or_default();
            (flavor, self.catalog.name(what.resource), amount)
        });
        Some(named.collect())
    }

    /// Sets the limits that a pending or placed gang draws on. Does nothing if the engine
    /// does not know the gang.
    pub fn apply_draws(&mut self, gang: &GangId, draws: Vec<LimitDraw>) {
        let Some(at) = self.gangs.find(gang) else {
            return;
        };
        if let Some(known) = self.gangs.get(at).map(|state| Arc::clone(&state.gang)) {
            let gang = Gang {
                draws,
                ..Gang::clone(&known)
            };
            self.update(at, gang);
        }
    }

    /// Closes a limit: no gang that draws on it starts before [`Self::open_limit`], even if the
    /// limit has room. Placed gangs stay.
    pub fn close_limit(&mut self, limit: LimitName, closure: LimitClosure) {
        if self.limits.close(limit.clone(), closure) {
            self.scheduling_queue.raise(&Signal::Gate(limit), 1);
        }
    }

    /// Opens a limit again.
    pub fn open_limit(&mut self, limit: &LimitName) {
        if self.limits.open(limit) {
            self.scheduling_queue.raise(&Signal::Gate(limit.clone()), 1);
        }
    }

    /// Returns the closed limits, by name.
    pub fn closed_limits(&self) -> impl Iterator<Item = (&LimitName, &LimitClosure)> {
        self.limits.closed()
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
    pub(super) fn charge_limits(&mut self, at: GangIdx, placed: &Gang, demand: &Demand) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let names = (&self.catalog, self.queues.flavors());
        let draws = (state.gang.draws.as_slice(), placed);
        let taken = self.limits.charge(at, draws, demand, names);
        self.scheduling_queue.raise_all(taken);
    }

    /// Releases the charge of a gang to its limits, if there is one.
    pub(super) fn release_limits(&mut self, at: GangIdx) {
        let mut freed = self.limits.discharge(at);
        freed.extend(self.limits.finish_leaving(at));
        self.scheduling_queue.raise_all(freed);
    }

    /// Charges a gang that is placed or has a kept place again, after its limits have changed.
    pub(super) fn recharge_limits(&mut self, at: GangIdx) {
        let gang = match (self.gangs.placed(at), self.restart_places.get(at)) {
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
        let mut told = self.limits.finish_leaving(at);
        let taken = drawn.iter().cloned();
        told.extend(taken.map(|(limit, amount)| (Signal::LimitTaken(limit), amount)));
        self.limits.start_leaving(at, drawn);
        self.scheduling_queue.raise_all(told);
    }
}
