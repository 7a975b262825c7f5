//! The check of limits when a gang starts, and the signals that may change its result.

use super::draw::{Draw, Drawn};
use super::ledger::{Account, Ask, Ledger, asks};
use super::line::{Lines, waits};
use crate::explain::{Allow, Change, Detail};
use crate::gang::Gang;
use crate::ids::{GangId, ResourceName};
use crate::queueing::{Blocked, Flavors, Signal, Wake};
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx};

/// How many holders an explanation names.
const NAMED: usize = 3;

/// A limit that has too little left for a gang.
struct Shortage<'a> {
    draw: &'a Draw,
    needs: i128,
    most: i128,
    used: i128,
}

impl Shortage<'_> {
    fn missing(&self) -> i128 {
        let wanted = self.used.saturating_add(self.needs);
        wanted.saturating_sub(self.most)
    }

    fn resource(&self) -> Option<ResourceName> {
        match &self.draw.of {
            Drawn::Resource { resource, .. } => Some(resource.clone()),
            Drawn::Gangs | Drawn::Waiting | Drawn::Devices => None,
        }
    }
}

impl Ledger {
    /// Checks that every limit that a gang draws on has room for its charge. The error reports the
    /// first of several that do not. `named` gives the name of a gang.
    pub(crate) fn admit(
        &self,
        gang: &Gang,
        demand: &Demand,
        names: (&Catalog, &Flavors),
        named: impl Fn(GangIdx) -> Option<GangId>,
    ) -> Result<(), Box<Blocked>> {
        if gang.draws.is_empty() {
            return Ok(());
        }
        let mut wake = Wake::default();
        wake.on(Signal::Queues, 1);
        let mut short: Vec<Shortage<'_>> = Vec::new();
        for ask in asks(&gang.draws, gang, demand, names) {
            let limit = &ask.draw.limit;
            if let Some(closure) = self.closure(limit).filter(|_| ask.draw.max.is_some()) {
                wake.on(Signal::Gate(limit.clone()), 1);
                let detail = Detail::LimitClosed {
                    limit: limit.clone(),
                    closure: closure.clone(),
                    refuses: ask.draw.refuses,
                };
                return Err(Blocked::new(detail, wake));
            }
            short.extend(self.shortage(&ask));
        }
        let Some(first) = short.first() else {
            return Ok(());
        };
        let limit = first.draw.limit.clone();
        wake.on(Signal::LimitFreed(limit.clone()), first.missing());
        // An open limit of the gang may close: closed limits are reported first.
        for ask in asks(&gang.draws, gang, demand, names) {
            wake.on(Signal::Gate(ask.draw.limit.clone()), 1);
        }
        let account = self.account(&limit);
        let all = account.into_iter().flat_map(|account| {
            // Leaving gangs count if usage with them is higher.
            let leave = (account.most() > account.used).then_some(&account.leavers);
            account.holders.iter().chain(leave.into_iter().flatten())
        });
        let mut largest: Vec<_> = all
            .filter_map(|(at, amount)| Some((named(*at)?, *amount)))
            .collect();
        let holders = u32::try_from(largest.len()).unwrap_or(u32::MAX);
        largest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        largest.truncate(NAMED);
        let detail = Detail::LimitExceeded {
            limit,
            resource: first.resource(),
            needs: first.needs,
            most: first.most,
            used: first.used,
            missing: first.missing(),
            holders,
            largest,
            refuses: first.draw.refuses,
        };
        let more = short.iter().map(|shortage| Allow {
            limit: shortage.draw.limit.clone(),
            resource: shortage.resource(),
            by: shortage.missing(),
        });
        let change = Change::Allow(more.collect());
        Err(Blocked::new(detail, wake).with(Some(change)))
    }

    /// Adds the signals to `wake` that could make a limit the reason.
    pub(crate) fn watch(
        &self,
        gang: &Gang,
        demand: &Demand,
        names: (&Catalog, &Flavors),
        wake: &mut Wake,
    ) {
        for ask in asks(&gang.draws, gang, demand, names) {
            let limit = &ask.draw.limit;
            wake.on(Signal::Gate(limit.clone()), 1);
            if let Some(max) = ask.draw.max {
                let left = i128::from(max)
                    .saturating_sub(self.used_of(&ask))
                    .saturating_sub(ask.amount);
                wake.on(Signal::LimitTaken(limit.clone()), left.saturating_add(1));
            }
        }
    }

    fn used_of(&self, ask: &Ask<'_>) -> i128 {
        let account = self.account(&ask.draw.limit);
        account.map_or(0, Account::most)
    }

    fn shortage<'a>(&self, ask: &Ask<'a>) -> Option<Shortage<'a>> {
        let shortage = Shortage {
            draw: ask.draw,
            needs: ask.amount,
            most: i128::from(ask.draw.max?),
            used: self.used_of(ask),
        };
        (shortage.missing() > 0).then_some(shortage)
    }
}

impl Lines {
    /// Checks that the limits on pending gangs let this gang in, after those that came before it.
    pub(crate) fn admit(&self, gang: &Gang) -> Result<(), Box<Blocked>> {
        let Some(outside) = self.keeps_out(gang) else {
            return Ok(());
        };
        let limit = outside.draw.limit.clone();
        let number = |n: usize| i128::try_from(n).unwrap_or(i128::MAX);
        let (most, before) = (number(outside.most), number(outside.before));
        let missing = before.saturating_sub(most).saturating_add(1);
        let mut wake = Wake::default();
        wake.on(Signal::LimitFreed(limit.clone()), missing);
        let detail = Detail::TooManyWait {
            limit,
            most,
            before,
            refuses: outside.draw.refuses,
        };
        Err(Blocked::new(detail, wake))
    }

    /// Adds the signals to `wake` that could make a limit on pending gangs the reason.
    pub(crate) fn watch(gang: &Gang, wake: &mut Wake) {
        for draw in waits(gang) {
            wake.on(Signal::LimitTaken(draw.limit.clone()), 1);
        }
    }
}
