//! The limit checks for a gang that would start, and the signals that may change their result.

use super::draw::{LimitDraw, LimitUnit};
use super::ledger::{LimitAccount, LimitLedger, LimitNeed, limit_needs};
use super::pending_limits::{PendingLimits, pending_draws};
use crate::explain::{LimitRaise, UnblockingChange, WaitDetail};
use crate::gang::Gang;
use crate::ids::{GangId, ResourceName};
use crate::queueing::{Blockage, Flavors, Signal, WakeCondition};
use crate::quota::Demand;
use crate::state::{Catalog, GangIdx};

/// The largest number of holders that an explanation names.
const MAX_NAMED: usize = 3;

/// A limit that has too little left for a gang.
struct LimitShortage<'a> {
    draw: &'a LimitDraw,
    needs: i128,
    max: i128,
    used: i128,
}

impl LimitShortage<'_> {
    fn missing(&self) -> i128 {
        let wanted = self.used.saturating_add(self.needs);
        wanted.saturating_sub(self.max)
    }

    fn resource(&self) -> Option<ResourceName> {
        match &self.draw.of {
            LimitUnit::Resource { resource, .. } => Some(resource.clone()),
            LimitUnit::Gangs | LimitUnit::Waiting | LimitUnit::Devices => None,
        }
    }
}

impl LimitLedger {
    /// Checks that every limit that a gang draws on has room for its charge. The error reports the
    /// first limit without room. `named` returns the name of a gang.
    pub(crate) fn admit(
        &self,
        gang: &Gang,
        demand: &Demand,
        names: (&Catalog, &Flavors),
        named: impl Fn(GangIdx) -> Option<GangId>,
    ) -> Result<(), Box<Blockage>> {
        if gang.draws.is_empty() {
            return Ok(());
        }
        let mut wake = WakeCondition::default();
        wake.on_rise(Signal::Queues, 1);
        let mut short: Vec<LimitShortage<'_>> = Vec::new();
        for ask in limit_needs(&gang.draws, gang, demand, names) {
            let limit = &ask.draw.limit;
            if let Some(closure) = self.closure(limit).filter(|_| ask.draw.max.is_some()) {
                wake.on_rise(Signal::Gate(limit.clone()), 1);
                let detail = WaitDetail::LimitClosed {
                    limit: limit.clone(),
                    closure: closure.clone(),
                    refuses: ask.draw.refuses,
                };
                return Err(Blockage::new(detail, wake));
            }
            short.extend(self.shortage(&ask));
        }
        let Some(first) = short.first() else {
            return Ok(());
        };
        let limit = first.draw.limit.clone();
        wake.on_rise(Signal::LimitFreed(limit.clone()), first.missing());
        // An open limit of the gang may close. The explanation must then report the closed limit.
        for ask in limit_needs(&gang.draws, gang, demand, names) {
            wake.on_rise(Signal::Gate(ask.draw.limit.clone()), 1);
        }
        let account = self.account(&limit);
        let all = account.into_iter().flat_map(|account| {
            // Leaving gangs count if the running usage is higher than the charged usage.
            let leave = (account.peak_usage() > account.used).then_some(&account.leaving);
            account.holders.iter().chain(leave.into_iter().flatten())
        });
        let mut largest: Vec<_> = all
            .filter_map(|(at, amount)| Some((named(*at)?, *amount)))
            .collect();
        let holders = u32::try_from(largest.len()).unwrap_or(u32::MAX);
        largest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        largest.truncate(MAX_NAMED);
        let detail = WaitDetail::LimitExceeded {
            limit,
            resource: first.resource(),
            needs: first.needs,
            most: first.max,
            used: first.used,
            missing: first.missing(),
            holders,
            largest,
            refuses: first.draw.refuses,
        };
        let more = short.iter().map(|shortage| LimitRaise {
            limit: shortage.draw.limit.clone(),
            resource: shortage.resource(),
            by: shortage.missing(),
        });
        let change = UnblockingChange::Allow(more.collect());
        Err(Blockage::new(detail, wake).with_change(Some(change)))
    }

    /// Adds to `wake` the signals after which a limit may block the gang.
    pub(crate) fn watch(
        &self,
        gang: &Gang,
        demand: &Demand,
        names: (&Catalog, &Flavors),
        wake: &mut WakeCondition,
    ) {
        for ask in limit_needs(&gang.draws, gang, demand, names) {
            let limit = &ask.draw.limit;
            wake.on_rise(Signal::Gate(limit.clone()), 1);
            if let Some(max) = ask.draw.max {
                let left = i128::from(max)
                    .saturating_sub(self.usage_for(&ask))
                    .saturating_sub(ask.amount);
                wake.on_rise(Signal::LimitTaken(limit.clone()), left.saturating_add(1));
            }
        }
    }

    fn usage_for(&self, ask: &LimitNeed<'_>) -> i128 {
        let account = self.account(&ask.draw.limit);
        account.map_or(0, LimitAccount::peak_usage)
    }

    fn shortage<'a>(&self, ask: &LimitNeed<'a>) -> Option<LimitShortage<'a>> {
        let shortage = LimitShortage {
            draw: ask.draw,
            needs: ask.amount,
            max: i128::from(ask.draw.max?),
            used: self.usage_for(ask),
        };
        (shortage.missing() > 0).then_some(shortage)
    }
}

impl PendingLimits {
    /// Checks that the limits on pending gangs have room for this gang after the gangs before it.
    pub(crate) fn admit(&self, gang: &Gang) -> Result<(), Box<Blockage>> {
        let Some(outside) = self.find_full_limit(gang) else {
            return Ok(());
        };
        let limit = outside.draw.limit.clone();
        let number = |n: usize| i128::try_from(n).unwrap_or(i128::MAX);
        let (most, before) = (number(outside.max), number(outside.gangs_before));
        let missing = before.saturating_sub(most).saturating_add(1);
        let mut wake = WakeCondition::default();
        wake.on_rise(Signal::LimitFreed(limit.clone()), missing);
        let detail = WaitDetail::TooManyPending {
            limit,
            max_pending: most,
            pending_before: before,
            refuses: outside.draw.refuses,
        };
        Err(Blockage::new(detail, wake))
    }

    /// Adds to `wake` the signals after which a limit on pending gangs may block the gang.
    pub(crate) fn watch(gang: &Gang, wake: &mut WakeCondition) {
        for draw in pending_draws(gang) {
            wake.on_rise(Signal::LimitTaken(draw.limit.clone()), 1);
        }
    }
}
