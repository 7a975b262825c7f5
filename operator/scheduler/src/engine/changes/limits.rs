//! Limits outside queue quota.

use std::sync::Arc;

use super::super::Engine;
use crate::gang::Gang;
use crate::ids::{FlavorName, GangId, LimitName, ResourceName};
use crate::limits::{LimitClosure, LimitDraw};
use crate::queueing::Signal;

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
        let queue = match (self.gangs.placed(at), self.kept_places.get(at)) {
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
        let known = self.gangs.get(at).map(|state| Arc::clone(&state.gang));
        if let Some(known) = known.filter(|gang| gang.draws != draws) {
            let gang = Gang {
                draws,
                ..Gang::clone(&known)
            };
            self.replace(at, gang);
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
}
