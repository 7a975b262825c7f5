//! What is held of each limit, and by whom.

use std::collections::{BTreeMap, BTreeSet};

use super::closure::Closure;
use super::draw::{Draw, Drawn};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{LimitName, ResourceName};
use crate::queueing::{Flavors, FollowerRoom, Signal};
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx};

/// What is held of each limit.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<LimitName, Account>,
    /// What each holds. Gangs that draw on nothing are left out.
    charges: BTreeMap<GangIdx, Vec<(LimitName, i128)>>,
    /// What those hold still who leave and are not charged any more.
    leaving: BTreeMap<GangIdx, Vec<(LimitName, i128)>>,
    /// Those that are charged and follow others: they do not run yet.
    coming: BTreeSet<GangIdx>,
    /// Closed limits, with reason and end.
    closed: BTreeMap<LimitName, Closure>,
}

/// What is held of one.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) used: i128,
    pub(super) holders: BTreeMap<GangIdx, i128>,
    /// Those who leave.
    pub(super) leavers: BTreeMap<GangIdx, i128>,
    /// What of that is charged to those who follow others.
    coming: i128,
}

impl Account {
    /// What is held by what runs.
    fn runs(&self) -> i128 {
        let leaving = self.leavers.values();
        let leaving = leaving.fold(0_i128, |sum, amount| sum.saturating_add(*amount));
        self.used
            .saturating_add(leaving)
            .saturating_sub(self.coming)
    }

    /// What is held at most: now, or once those who leave have left.
    pub(super) fn most(&self) -> i128 {
        match self.leavers.is_empty() {
            true => self.used,
            false => self.used.max(self.runs()),
        }
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.leavers.is_empty()
    }
}

/// How much a gang would draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) draw: &'a Draw,
    pub(super) amount: i128,
}

/// How much a gang that is charged so much draws on each limit: on none, of which it
/// needs nothing.
pub(super) fn asks<'a>(
    draws: &'a [Draw],
    gang: &'a Gang,
    demand: &'a Demand,
    (catalog, flavors): (&'a Catalog, &'a Flavors),
) -> impl Iterator<Item = Ask<'a>> {
    let asks = draws.iter().map(move |draw| {
        let of = |counts: &dyn Fn(&ResourceName) -> bool, flavor: Option<_>| {
            let parts = demand.iter().filter(|(what, _)| {
                counts(&catalog.name(what.resource))
                    && flavor.is_none_or(|flavor| flavors.name(what.flavor) == Some(flavor))
            });
            parts.fold(0_i128, |sum, (_, amount)| sum.saturating_add(amount))
        };
        let amount = match &draw.of {
            Drawn::Gangs => 1,
            Drawn::Waiting => 0,
            Drawn::Resource { resource, flavor } => of(&|r| r == resource, flavor.as_ref()),
            Drawn::Devices => {
                let is_device = |r: &ResourceName| {
                    let named = |group: &TaskGroup| group.device.as_ref() == Some(r);
                    gang.groups.iter().any(named)
                };
                of(&is_device, None)
            }
        };
        Ask { draw, amount }
    });
    asks.filter(|ask| ask.amount > 0)
}

impl Ledger {
    /// Charges a gang, whatever the limits say. Tells what has been taken.
    pub(crate) fn charge(
        &mut self,
        at: GangIdx,
        (draws, gang): (&[Draw], &Gang),
        demand: &Demand,
        names: (&Catalog, &Flavors),
    ) -> Vec<(Signal, i128)> {
        let taken = Self::would_draw((draws, gang), demand, names);
        let told = taken.iter();
        let told = told.map(|(limit, amount)| (Signal::LimitTaken(limit.clone()), *amount));
        let told = told.collect();
        self.put_back(at, taken);
        told
    }

    /// What a gang that is charged so much draws on each limit.
    pub(crate) fn would_draw(
        (draws, gang): (&[Draw], &Gang),
        demand: &Demand,
        names: (&Catalog, &Flavors),
    ) -> Vec<(LimitName, i128)> {
        let asks = asks(draws, gang, demand, names);
        asks.map(|ask| (ask.draw.limit.clone(), ask.amount))
            .collect()
    }

    /// What a gang is charged.
    pub(crate) fn drawn(&self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.charges.get(&at).cloned().unwrap_or_default()
    }

    /// A gang that has been discharged of this holds it until it has left.
    pub(crate) fn leaves(&mut self, at: GangIdx, held: Vec<(LimitName, i128)>) {
        for (limit, amount) in &held {
            let account = self.accounts.entry(limit.clone()).or_default();
            account.leavers.insert(at, *amount);
        }
        if !held.is_empty() {
            self.leaving.insert(at, held);
        }
    }

    /// It has left, or is charged again. Tells what nobody holds any more.
    pub(crate) fn has_left(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        let held = self.leaving.remove(&at).unwrap_or_default();
        for (limit, _) in &held {
            if let Some(account) = self.accounts.get_mut(limit) {
                account.leavers.remove(&at);
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

    /// A gang that is charged follows others, and does not run yet.
    pub(crate) fn follows(&mut self, at: GangIdx) {
        if self.coming.insert(at) {
            self.count_coming(at, 1);
        }
    }

    /// It runs from now on. Tells what is taken of what runs.
    pub(crate) fn has_come(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        if !self.coming.remove(&at) {
            return Vec::new();
        }
        self.count_coming(at, -1);
        let held = self.drawn(at).into_iter();
        held.map(|(limit, amount)| (Signal::LimitTaken(limit), amount))
            .collect()
    }

    fn count_coming(&mut self, at: GangIdx, times: i128) {
        for (limit, amount) in self.drawn(at) {
            if let Some(account) = self.accounts.get_mut(&limit) {
                let amount = amount.saturating_mul(times);
                account.coming = account.coming.saturating_add(amount);
            }
        }
    }

    /// What one holds still that leaves.
    pub(crate) fn left_by(&self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.leaving.get(&at).cloned().unwrap_or_default()
    }

    /// Whether the limits that it draws on have room for one that is charged and follows others.
    pub(crate) fn room_of_follower(&self, at: GangIdx, draws: &[Draw]) -> FollowerRoom {
        let held = self.charges.get(&at).into_iter().flatten();
        let rooms = held.filter_map(|(limit, amount)| {
            let max = draws.iter().find(|draw| draw.limit == *limit)?.max?;
            let (account, max) = (self.accounts.get(limit)?, i128::from(max));
            Some(match account.runs().saturating_add(*amount) <= max {
                _ if account.used > max => FollowerRoom::Never,
                true => FollowerRoom::Now,
                false => FollowerRoom::Later,
            })
        });
        rooms.max().unwrap_or(FollowerRoom::Now)
    }

    /// Takes the charge of a gang back, if there is one. Tells what has been given back.
    pub(crate) fn discharge(&mut self, at: GangIdx) -> Vec<(Signal, i128)> {
        let freed = self.lift(at).into_iter();
        freed
            .map(|(limit, amount)| (Signal::LimitFreed(limit), amount))
            .collect()
    }

    /// The same for a moment; returns it.
    pub(crate) fn lift(&mut self, at: GangIdx) -> Vec<(LimitName, i128)> {
        self.has_come(at);
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

    /// What was lifted is charged again.
    pub(crate) fn put_back(&mut self, at: GangIdx, held: Vec<(LimitName, i128)>) {
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

    /// Nothing may be drawn from a limit. Says whether that is new.
    pub(crate) fn close(&mut self, limit: LimitName, closure: Closure) -> bool {
        let is_new = self.closed.get(&limit) != Some(&closure);
        self.closed.insert(limit, closure);
        is_new
    }

    /// It may be again. Says whether it might not.
    pub(crate) fn open(&mut self, limit: &LimitName) -> bool {
        self.closed.remove(limit).is_some()
    }

    /// Those that are closed, by name.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&LimitName, &Closure)> {
        self.closed.iter()
    }

    pub(super) fn closure(&self, limit: &LimitName) -> Option<&Closure> {
        self.closed.get(limit)
    }

    pub(super) fn account(&self, limit: &LimitName) -> Option<&Account> {
        self.accounts.get(limit)
    }

    /// What is held of each of which anything is, by name, in base units.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        let accounts = self.accounts.iter();
        let held = accounts.filter(|(_, account)| !account.holders.is_empty());
        held.map(|(limit, account)| (limit, account.used))
    }
}
