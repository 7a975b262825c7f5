//! Used GPU-hours, by limit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use trellis_api::QuotaPolicy;
use trellis_policies::quota::{Burnt, LimitId, Meter, QuotaPolicies, What};
use trellis_scheduler::{Closure, Time};

use super::Account;

/// Seconds of an hour.
pub const HOUR: i128 = 3600;

/// Used GPU-hours of each limit.
#[derive(Debug, Default)]
pub struct Hours {
    meters: BTreeMap<LimitId, Metered>,
    /// Policies whose ledger was read, or did not exist, by name, with their uid: after that only
    /// the meters count.
    resumed: BTreeMap<String, Option<String>>,
    /// Policies whose ledger cannot be read, by name, with the error.
    unreadable: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Metered {
    meter: Meter,
    /// True if another operator counted before: the current holdings count from its last time on.
    resumed: bool,
    /// Set if all hours are used.
    closed: Option<Burnout>,
}

/// The reason why a limit is closed. None if jobs may draw from it.
pub type Gate = Option<Closure>;

/// Message for a limit whose GPU hours are all used.
pub(crate) fn all_burnt(limit: i64) -> String {
    match limit {
        1 => "its 1 GPU hour is burnt".to_owned(),
        _ => format!("all {limit} GPU hours are burnt"),
    }
}

/// Message while the ledger of a policy cannot be read.
pub(crate) const UNREADABLE: &str =
    "its QuotaLedger cannot be read, so all GPU hours count as burnt";

/// All GPU hours of a limit are used.
#[derive(Clone, Copy, Debug)]
struct Burnout {
    /// GPU hours that the limit allows.
    limit: i64,
    /// When hours become free again, in seconds since 1970, if known.
    until: Option<i64>,
}

impl From<Burnout> for Closure {
    fn from(burnout: Burnout) -> Self {
        let until = burnout.until;
        Self {
            why: all_burnt(burnout.limit),
            until: until.map(|second| Time::from_millis(second.saturating_mul(1_000))),
        }
    }
}

impl Hours {
    /// Continues from the ledgers of the policies, each of which is read once. `now` is in seconds
    /// since 1970.
    ///
    /// A ledger's time in the future counts as now. While a ledger cannot be read, the limits of
    /// its policy are closed, until it is corrected or deleted.
    pub fn resume<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a QuotaPolicy>,
        account_of: impl Fn(&QuotaPolicy) -> Result<Option<Account>, String>,
        now: i64,
    ) {
        self.unreadable.clear();
        for policy in policies {
            let name = policy.metadata.name.clone().unwrap_or_default();
            let Some(hours) = &policy.spec.limits.gpu_hours else {
                self.resumed.remove(&name);
                continue;
            };
            let uid = policy.metadata.uid.clone();
            if self.resumed.get(&name) == Some(&uid) {
                continue;
            }
            if self.resumed.remove(&name).is_some() {
                // The policy was deleted and created again: the usage of the former one is dropped.
                self.meters.retain(|limit, _| limit.policy != name);
            }
            let account = match account_of(policy) {
                Ok(account) => account,
                Err(why) => {
                    self.unreadable.insert(name, why);
                    continue;
                }
            };
            self.resumed.insert(name.clone(), uid);
            let Some(account) = account else { continue };
            for (holder, parts) in account.holders {
                let limit = LimitId {
                    policy: name.clone(),
                    holder,
                    what: What::GpuHours,
                };
                let parts = parts.into_iter().map(|part| Burnt {
                    start: part.start.min(now),
                    ..part
                });
                match self.meters.entry(limit) {
                    Entry::Vacant(vacant) => {
                        let until = account.until.min(now);
                        vacant.insert(Metered {
                            meter: Meter::resume(hours.window_hours, until, parts),
                            resumed: true,
                            closed: None,
                        });
                    }
                    // The ledger could not be read before, and this operator has counted meanwhile.
                    Entry::Occupied(mut counted) => counted.get_mut().meter.add(parts),
                }
            }
        }
    }

    /// Policies whose ledger cannot be read, by name, with the error.
    #[must_use]
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// Counts usage until `now`, in seconds since 1970, and sets the GPUs that each limit holds
    /// from now on. Returns for each limit whether it is closed.
    pub fn count(
        &mut self,
        policies: &QuotaPolicies,
        held: impl IntoIterator<Item = (LimitId, i64)>,
        now: i64,
    ) -> Vec<(LimitId, Gate)> {
        let mut held: BTreeMap<LimitId, i64> = held.into_iter().collect();
        for limit in self.meters.keys() {
            held.entry(limit.clone()).or_default();
        }
        let mut gates = Vec::new();
        for (limit, gpus) in held {
            let Some(hours) = policies.gpu_hours(&limit.policy) else {
                let mut unusable = policies.unusable().iter();
                if unusable.any(|(name, _)| *name == limit.policy) {
                    // The policy cannot be read, so its limit is unknown, but usage still counts.
                    if let Some(metered) = self.meters.get_mut(&limit) {
                        metered.meter.hold(gpus, now);
                        gates.push((limit, metered.closed.map(Closure::from)));
                    }
                    continue;
                }
                // The policy has no such limit any more.
                self.meters.remove(&limit);
                gates.push((limit, None));
                continue;
            };
            let metered = self.meters.entry(limit.clone());
            let metered = metered.or_insert_with(|| Metered {
                meter: Meter::new(hours.window_hours, now),
                resumed: false,
                closed: None,
            });
            if !metered.meter.is_of(hours.window_hours) {
                let before = &metered.meter;
                metered.meter = Meter::resume(hours.window_hours, before.until(), before.parts());
                metered.closed = None;
            }
            if std::mem::take(&mut metered.resumed) {
                let until = metered.meter.until();
                metered.meter.hold(gpus, until);
            }
            metered.meter.hold(gpus, now);
            let most = i128::from(hours.limit).saturating_mul(HOUR);
            let is_burnt = metered.meter.burnt() >= most;
            // Running jobs move this time, so it is computed again once it has come.
            let known = metered.closed.filter(|closed| closed.limit == hours.limit);
            let until = known.and_then(|closed| closed.until);
            let until = until.filter(|until| *until > now);
            metered.closed = is_burnt.then(|| Burnout {
                limit: hours.limit,
                until: until.or_else(|| metered.meter.falls_below(most)),
            });
            let gate = match self.unreadable.contains_key(&limit.policy) {
                true => Some(Closure {
                    why: UNREADABLE.to_owned(),
                    until: None,
                }),
                false => metered.closed.map(Closure::from),
            };
            gates.push((limit, gate));
        }
        self.meters.retain(|_, metered| !metered.meter.is_empty());
        gates
    }

    /// When a limit is used up or has room again if holdings do not change, in seconds since 1970.
    #[must_use]
    pub fn next(&self, policies: &QuotaPolicies) -> Option<i64> {
        let times = self.meters.iter().filter_map(|(limit, metered)| {
            if let Some(closed) = metered.closed {
                return closed.until;
            }
            let hours = policies.gpu_hours(&limit.policy)?.limit;
            metered
                .meter
                .reaches(i128::from(hours).saturating_mul(HOUR))
        });
        times.min()
    }

    /// Usage by limit: the time until which it counts, and the parts of the window.
    pub fn burnt(&self) -> impl Iterator<Item = (&LimitId, i64, Vec<Burnt>)> {
        let meters = self.meters.iter();
        meters.map(|(limit, metered)| {
            let meter = &metered.meter;
            (limit, meter.until(), meter.parts().collect())
        })
    }
}

#[cfg(test)]
mod tests;
