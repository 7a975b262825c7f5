//! Used GPU-hours, by limit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use trellis_api::QuotaPolicy;
use trellis_policies::quota::{
    GpuTimeMeter, GpuTimeUsage, LimitId, LimitedQuantity, QuotaPolicies,
};
use trellis_scheduler::{LimitClosure, Time};

use super::LedgerUsage;

/// Seconds of an hour.
pub const HOUR_SECONDS: i128 = 3600;

/// Used GPU-hours of each limit.
#[derive(Debug, Default)]
pub struct GpuHourUsage {
    meters: BTreeMap<LimitId, LimitMeter>,
    /// Policies whose ledger was read or did not exist, by name, with their uid. From then on only
    /// the meters count.
    read_ledgers: BTreeMap<String, Option<String>>,
    /// Policies whose ledger cannot be read, by name, with the error.
    unreadable: BTreeMap<String, String>,
}

#[derive(Debug)]
struct LimitMeter {
    meter: GpuTimeMeter,
    /// True if the meter continues a ledger. Then the GPUs that the limit holds now count from the
    /// last time of the ledger on.
    is_from_ledger: bool,
    /// Set if all hours are used.
    exhausted: Option<ExhaustedHours>,
}

/// The reason why a limit is closed. None if jobs may draw from it.
pub type LimitGate = Option<LimitClosure>;

/// Returns the message for a limit whose GPU hours are all used.
pub(crate) fn all_hours_used(limit: i64) -> String {
    match limit {
        1 => "its 1 GPU hour is used".to_owned(),
        _ => format!("all {limit} GPU hours are used"),
    }
}

/// Message while the ledger of a policy cannot be read.
pub(crate) const UNREADABLE_LEDGER: &str =
    "its QuotaLedger cannot be read, so all GPU hours count as used";

/// All GPU hours of a limit are used.
#[derive(Clone, Copy, Debug)]
struct ExhaustedHours {
    /// GPU hours that the limit allows.
    limit: i64,
    /// When hours become free again, in seconds since 1970, if known.
    until: Option<i64>,
}

impl From<ExhaustedHours> for LimitClosure {
    fn from(exhausted: ExhaustedHours) -> Self {
        let until = exhausted.until;
        Self {
            why: all_hours_used(exhausted.limit),
            until: until.map(|second| Time::from_millis(second.saturating_mul(1_000))),
        }
    }
}

impl GpuHourUsage {
    /// Continues from the ledgers of the policies, each of which is read once. `now` is in seconds
    /// since 1970.
    ///
    /// A time in the future counts as now. The limits of a policy are closed until its ledger can
    /// be read or is deleted.
    pub fn read_ledgers<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a QuotaPolicy>,
        read_ledger: impl Fn(&QuotaPolicy) -> Result<Option<LedgerUsage>, String>,
        now: i64,
    ) {
        self.unreadable.clear();
        for policy in policies {
            let name = policy.metadata.name.clone().unwrap_or_default();
            let Some(hours) = &policy.spec.limits.gpu_hours else {
                self.read_ledgers.remove(&name);
                continue;
            };
            let uid = policy.metadata.uid.clone();
            if self.read_ledgers.get(&name) == Some(&uid) {
                continue;
            }
            if self.read_ledgers.remove(&name).is_some() {
                // The policy was deleted and created again, which drops its usage.
                self.meters.retain(|limit, _| limit.policy != name);
            }
            let account = match read_ledger(policy) {
                Ok(account) => account,
                Err(why) => {
                    self.unreadable.insert(name, why);
                    continue;
                }
            };
            self.read_ledgers.insert(name.clone(), uid);
            let Some(account) = account else { continue };
            for (holder, parts) in account.holders {
                let limit = LimitId {
                    policy: name.clone(),
                    holder,
                    quantity: LimitedQuantity::GpuHours,
                };
                let parts = parts.into_iter().map(|part| GpuTimeUsage {
                    start: part.start.min(now),
                    ..part
                });
                match self.meters.entry(limit) {
                    Entry::Vacant(vacant) => {
                        let until = account.until.min(now);
                        vacant.insert(LimitMeter {
                            meter: GpuTimeMeter::resume(hours.window_hours, until, parts),
                            is_from_ledger: true,
                            exhausted: None,
                        });
                    }
                    // The ledger could not be read before, and this operator has counted meanwhile.
                    Entry::Occupied(mut counted) => counted.get_mut().meter.add(parts),
                }
            }
        }
    }

    /// Returns the policies whose ledger cannot be read, by name, with the error.
    #[must_use]
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// Counts usage until `now`, in seconds since 1970, and sets the GPUs that each limit holds
    /// from now on. Returns for each limit whether it is closed.
    pub fn count_until(
        &mut self,
        policies: &QuotaPolicies,
        charged: impl IntoIterator<Item = (LimitId, i64)>,
        now: i64,
    ) -> Vec<(LimitId, LimitGate)> {
        let mut charged: BTreeMap<LimitId, i64> = charged.into_iter().collect();
        for limit in self.meters.keys() {
            charged.entry(limit.clone()).or_default();
        }
        let mut gates = Vec::new();
        for (limit, gpus) in charged {
            let Some(hours) = policies.gpu_hours(&limit.policy) else {
                let mut unusable = policies.unusable().iter();
                if unusable.any(|(name, _)| *name == limit.policy) {
                    // The policy cannot be read, so its limit is unknown, but usage still counts.
                    if let Some(metered) = self.meters.get_mut(&limit) {
                        metered.meter.set_gpus(gpus, now);
                        gates.push((limit, metered.exhausted.map(LimitClosure::from)));
                    }
                    continue;
                }
                // The policy has no such limit any more.
                self.meters.remove(&limit);
                gates.push((limit, None));
                continue;
            };
            let metered = self.meters.entry(limit.clone());
            let metered = metered.or_insert_with(|| LimitMeter {
                meter: GpuTimeMeter::new(hours.window_hours, now),
                is_from_ledger: false,
                exhausted: None,
            });
            if !metered.meter.has_window(hours.window_hours) {
                let before = &metered.meter;
                metered.meter = GpuTimeMeter::resume(
                    hours.window_hours,
                    before.counted_until(),
                    before.parts(),
                );
                metered.exhausted = None;
            }
            if std::mem::take(&mut metered.is_from_ledger) {
                let until = metered.meter.counted_until();
                metered.meter.set_gpus(gpus, until);
            }
            metered.meter.set_gpus(gpus, now);
            let most = i128::from(hours.limit).saturating_mul(HOUR_SECONDS);
            let is_exhausted = metered.meter.used_gpu_seconds() >= most;
            // Running jobs move this time, so it is computed again once it has come.
            let known = metered
                .exhausted
                .filter(|closed| closed.limit == hours.limit);
            let until = known.and_then(|closed| closed.until);
            let until = until.filter(|until| *until > now);
            metered.exhausted = is_exhausted.then(|| ExhaustedHours {
                limit: hours.limit,
                until: until.or_else(|| metered.meter.time_below(most)),
            });
            let gate = match self.unreadable.contains_key(&limit.policy) {
                true => Some(LimitClosure {
                    why: UNREADABLE_LEDGER.to_owned(),
                    until: None,
                }),
                false => metered.exhausted.map(LimitClosure::from),
            };
            gates.push((limit, gate));
        }
        self.meters.retain(|_, metered| !metered.meter.is_empty());
        gates
    }

    /// Returns when a limit is used up or has room again if holdings do not change, in seconds
    /// since 1970.
    #[must_use]
    pub fn next_change(&self, policies: &QuotaPolicies) -> Option<i64> {
        let times = self.meters.iter().filter_map(|(limit, metered)| {
            if let Some(closed) = metered.exhausted {
                return closed.until;
            }
            let hours = policies.gpu_hours(&limit.policy)?.limit;
            metered
                .meter
                .time_reaching(i128::from(hours).saturating_mul(HOUR_SECONDS))
        });
        times.min()
    }

    /// Returns the usage by limit: the time until which it counts, and the parts of the window.
    pub fn used_hours(&self) -> impl Iterator<Item = (&LimitId, i64, Vec<GpuTimeUsage>)> {
        let meters = self.meters.iter();
        meters.map(|(limit, metered)| {
            let meter = &metered.meter;
            (limit, meter.counted_until(), meter.parts().collect())
        })
    }
}

#[cfg(test)]
mod tests;
