//! What is held of each limit, and by whom.

use std::collections::BTreeMap;

use super::draw::{Draw, Drawn};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{LimitName, ResourceName};
use crate::queueing::{Flavors, Signal};
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx};
use crate::time::Time;

/// What is held of each limit.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<LimitName, Account>,
    /// What each holds. Gangs that draw on nothing are left out.
    charges: BTreeMap<GangIdx, Vec<(LimitName, i128)>>,
    /// Limits from which nothing may be drawn now, and until when, where that is known.
    closed: BTreeMap<LimitName, Option<Time>>,
}

/// What is held of one.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) used: i128,
    pub(super) holders: BTreeMap<GangIdx, i128>,
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
        let taken: Vec<(LimitName, i128)> = asks(draws, gang, demand, names)
            .map(|ask| (ask.draw.limit.clone(), ask.amount))
            .collect();
        let told = taken.iter();
        let told = told.map(|(limit, amount)| (Signal::LimitTaken(limit.clone()), *amount));
        let told = told.collect();
        self.put_back(at, taken);
        told
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
        let held = self.charges.remove(&at).unwrap_or_default();
        for (limit, amount) in &held {
            if let Some(account) = self.accounts.get_mut(limit) {
                account.used = account.used.saturating_sub(*amount);
                account.holders.remove(&at);
                if account.holders.is_empty() {
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
    pub(crate) fn close(&mut self, limit: LimitName, until: Option<Time>) -> bool {
        self.closed.insert(limit, until) != Some(until)
    }

    /// It may be again. Says whether it might not.
    pub(crate) fn open(&mut self, limit: &LimitName) -> bool {
        self.closed.remove(limit).is_some()
    }

    /// Those that are closed, by name.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&LimitName, Option<Time>)> {
        self.closed.iter().map(|(limit, until)| (limit, *until))
    }

    pub(super) fn is_closed(&self, limit: &LimitName) -> Option<Option<Time>> {
        self.closed.get(limit).copied()
    }

    pub(super) fn account(&self, limit: &LimitName) -> Option<&Account> {
        self.accounts.get(limit)
    }

    /// What is held of each of which anything is, by name, in base units.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        let accounts = self.accounts.iter();
        accounts.map(|(limit, account)| (limit, account.used))
    }
}
