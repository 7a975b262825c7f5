//! The usage of each limit, and the gangs that hold it.

use std::collections::{BTreeMap, BTreeSet};

use super::closure::LimitClosure;
use super::draw::{LimitDraw, LimitUnit};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{LimitName, ResourceName};
use crate::queueing::{Flavors, NominatedRoom, Signal};
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx};

/// Usage of all limits.
#[derive(Debug, Default)]
pub(crate) struct LimitLedger {
    accounts: BTreeMap<LimitName, LimitAccount>,
    /// The charge of each gang that has one.
    charges: BTreeMap<GangIdx, Vec<(LimitName, i128)>>,
    /// Amounts that leaving gangs still hold although they have no charge any more.
    leaving: BTreeMap<GangIdx, Vec<(LimitName, i128)>>,
    /// Charged gangs that wait for leaving gangs. They do not run yet.
    nominated: BTreeSet<GangIdx>,
    /// Closed limits, with reason and end.
    closed: BTreeMap<LimitName, LimitClosure>,
}

/// Usage of one limit.
#[derive(Debug, Default)]
pub(super) struct LimitAccount {
    pub(super) used: i128,
    pub(super) holders: BTreeMap<GangIdx, i128>,
    /// The amount that each leaving gang still holds.
    pub(super) leaving: BTreeMap<GangIdx, i128>,
    /// The part of `used` that is charged to gangs that do not run yet.
    nominated: i128,
}

impl LimitAccount {
    /// Returns the usage by running gangs, including leaving gangs.
    fn running_usage(&self) -> i128 {
        let leaving = self.leaving.values();
        let leaving = leaving.fold(0_i128, |sum, amount| sum.saturating_add(*amount));
        self.used
            .saturating_add(leaving)
            .saturating_sub(self.nominated)
    }

    /// Returns the larger of the usage now and the usage after the leaving gangs are gone.
    pub(super) fn peak_usage(&self) -> i128 {
        match self.leaving.is_empty() {
            true => self.used,
            false => self.used.max(self.running_usage()),
        }
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.leaving.is_empty()
    }
}

/// How much a gang would draw on a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitNeed<'a> {
    pub(super) draw: &'a LimitDraw,
    pub(super) amount: i128,
}

/// Returns how much a gang with this demand draws on each limit, without limits of which it needs
/// nothing.
pub(super) fn limit_needs<'a>(
    draws: &'a [LimitDraw],
    gang: &'a Gang,
    demand: &'a Demand,
    (catalog, flavors): (&'a Catalog, &'a Flavors),
) -> impl Iterator<Item = LimitNeed<'a>> {
    let asks = draws.iter().map(move |draw| {
        let of = |counts: &dyn Fn(&ResourceName) -> bool, flavor: Option<_>| {
            let parts = demand.iter().filter(|(what, _)| {
                counts(&catalog.name(what.resource))
                    && flavor.is_none_or(|flavor| flavors.name(what.flavor) == Some(flavor))
            });
            parts.fold(0_i128, |sum, (_, amount)| sum.saturating_add(amount))
        };
        let amount = match &draw.of {
            LimitUnit::Gangs => 1,
            LimitUnit::Waiting => 0,
            LimitUnit::Resource { resource, flavor } => of(&|r| r == resource, flavor.as_ref()),
            LimitUnit::Devices => {
                let is_device = |r: &ResourceName| {
                    let named = |group: &TaskGroup| group.device.as_ref() == Some(r);
                    gang.groups.iter().any(named)
                };
                of(&is_device, None)
            }
        };
        LimitNeed { draw, amount }
    });
    asks.filter(|ask| ask.amount > 0)
}

impl LimitLedger {
    /// Charges a gang, even above its limits. Returns the signals of the charged amounts.
    pub(crate) fn charge(
        &mut self,
        at: GangIdx,
        (draws, gang): (&[LimitDraw], &Gang),
        demand: &Demand,
        names: (&Catalog, &Flavors),
    ) -> Vec<(Signal, i128)> {
        let taken = Self::drawn_amounts((draws, gang), demand, names);
        let signals = taken.iter();
        let signals = signals.map(|(limit, amount)| (Signal::LimitTaken(limit.clone()), *amount));
        let signals = signals.collect();
        self.put_back_charge(at, taken);
        signals
    }

    /// Returns how much a gang with this demand would draw on each limit.
    pub(crate) fn drawn_amounts(
        (draws, gang): (&[LimitDraw], &Gang),
        demand: &Demand,
        names: (&Catalog, &Flavors),
    ) -> Vec<(LimitName, i128)> {
        let asks = limit_needs(draws, gang, demand, names);
        asks.map(|ask| (ask.draw.limit.clone(), ask.amount))
            .collect()
    }

    /// Returns the charge of a gang.
    pub(crate) fn charged_amounts(&self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.charges.get(&at).cloned().unwrap_or_default()
    }

    /// Records the amounts that a discharged gang still holds until it has left.
    pub(crate) fn start_leaving(&mut self, at: GangIdx, held: Vec<(LimitName, i128)>) {
        for (limit, amount) in &held {
            let account = self.accounts.entry(limit.clone()).or_default();
            account.leaving.insert(at, *amount);
        }
        if !held.is_empty() {
            self.leaving.insert(at, held);
        }
    }

    /// Records that a leaving gang has left, or is charged again. Returns the signals of the freed
    /// amounts.
    pub(crate) fn finish_leaving(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        let held = self.leaving.remove(&at).unwrap_or_default();
        for (limit, _) in &held {
            if let Some(account) = self.accounts.get_mut(limit) {
                account.leaving.remove(&at);
                if account.is_empty() {
                    self.accounts.remove(limit);
                }
            }
        }
        let freed = held.into_iter();
        freed
            .map(|(limit, amount)| (Signal::LimitFreed(limit), amount))
            .collect()
    }

    /// Records that a charged gang waits for leaving gangs, and does not run yet.
    pub(crate) fn mark_nominated(&mut self, at: GangIdx) {
        if self.nominated.insert(at) {
            self.count_nominated(at, 1);
        }
    }

    /// Records that a nominated gang runs from now on. Returns the signals of the amounts that it
    /// adds to the running usage.
    pub(crate) fn start_running(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        if !self.nominated.remove(&at) {
            return Vec::new();
        }
        self.count_nominated(at, -1);
        let held = self.charged_amounts(at).into_iter();
        held.map(|(limit, amount)| (Signal::LimitTaken(limit), amount))
            .collect()
    }

    fn count_nominated(&mut self, at: GangIdx, times: i128) {
        for (limit, amount) in self.charged_amounts(at) {
            if let Some(account) = self.accounts.get_mut(&limit) {
                let amount = amount.saturating_mul(times);
                account.nominated = account.nominated.saturating_add(amount);
            }
        }
    }

    /// Returns the amounts that a leaving gang still holds.
    pub(crate) fn leaving_amounts(&self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.leaving.get(&at).cloned().unwrap_or_default()
    }

    /// Returns when a charged gang that waits for leaving gangs fits into its limits.
    pub(crate) fn nominated_room(&self, at: GangIdx, draws: &[LimitDraw]) -> NominatedRoom {
        let held = self.charges.get(&at).into_iter().flatten();
        let rooms = held.filter_map(|(limit, amount)| {
            let max = draws.iter().find(|draw| draw.limit == *limit)?.max?;
            let (account, max) = (self.accounts.get(limit)?, i128::from(max));
            Some(
                match account.running_usage().saturating_add(*amount) <= max {
                    _ if account.used > max => NominatedRoom::Never,
                    true => NominatedRoom::Now,
                    false => NominatedRoom::Later,
                },
            )
        });
        rooms.max().unwrap_or(NominatedRoom::Now)
    }

    /// Discharges a gang, if it is charged. Returns the signals of the freed amounts.
    pub(crate) fn discharge(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        let freed = self.lift_charge(at).into_iter();
        freed
            .map(|(limit, amount)| (Signal::LimitFreed(limit), amount))
            .collect()
    }

    /// Removes the charge of a gang for a short time, and returns it.
    pub(crate) fn lift_charge(&mut self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.start_running(at);
        let held = self.charges.remove(&at).unwrap_or_default();
        for (limit, amount) in &held {
            if let Some(account) = self.accounts.get_mut(limit) {
                account.used = account.used.saturating_sub(*amount);
                account.holders.remove(&at);
                if account.is_empty() {
                    self.accounts.remove(limit);
                }
            }
        }
        held
    }

    /// Puts back the charge that [`Self::lift_charge`] removed.
    pub(crate) fn put_back_charge(&mut self, at: GangIdx, held: Vec<(LimitName, i128)>) {
        for (limit, amount) in &held {
            let account = self.accounts.entry(limit.clone()).or_default();
            account.used = account.used.saturating_add(*amount);
            let own = account.holders.entry(at).or_default();
            *own = own.saturating_add(*amount);
        }
        if !held.is_empty() {
            self.charges.insert(at, held);
        }
    }

    /// Closes a limit. Returns true if this closure is new.
    pub(crate) fn close(&mut self, limit: LimitName, closure: LimitClosure) -> bool {
        let is_new = self.closed.get(&limit) != Some(&closure);
        self.closed.insert(limit, closure);
        is_new
    }

    /// Opens a limit. Returns true if it was closed.
    pub(crate) fn open(&mut self, limit: &LimitName) -> bool {
        self.closed.remove(limit).is_some()
    }

    /// Returns the closed limits, by name.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&LimitName, &LimitClosure)> {
        self.closed.iter()
    }

    pub(super) fn closure(&self, limit: &LimitName) -> Option<&LimitClosure> {
        self.closed.get(limit)
    }

    pub(super) fn account(&self, limit: &LimitName) -> Option<&LimitAccount> {
        self.accounts.get(limit)
    }

    /// Returns the usage of each limit that a gang is charged for, by name, in base units.
    pub(crate) fn usage_by_limit(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        let accounts = self.accounts.iter();
        let held = accounts.filter(|(_, account)| !account.holders.is_empty());
        held.map(|(limit, account)| (limit, account.used))
    }
}
