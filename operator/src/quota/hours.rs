//! GPU-hours that are burnt, by limit.

use std::collections::BTreeMap;

use trellis_api::QuotaPolicy;
use trellis_api::quota_policy::{BurntGpuTime, QuotaPolicyStatus};
use trellis_policies::quota::{Burnt, Holder, LimitId, Meter, QuotaPolicies, What};

/// Seconds of an hour.
pub(super) const HOUR: i128 = 3600;

/// What is burnt of each limit of GPU-hours.
#[derive(Debug, Default)]
pub struct Hours {
    meters: BTreeMap<LimitId, Metered>,
}

#[derive(Debug)]
struct Metered {
    meter: Meter,
    /// Another operator counted until then: what is held now it held since.
    resumed: bool,
    /// All of it is burnt, and until when.
    closed: Option<Option<i64>>,
}

/// Whether a limit may be drawn from: until when not, in seconds since 1970, as far as is known.
pub type Gate = Option<Option<i64>>;

impl Hours {
    /// Goes on from what is written down.
    pub fn resume<'a>(&mut self, objects: impl IntoIterator<Item = &'a QuotaPolicy>) {
        for object in objects {
            let policy = object.metadata.name.clone().unwrap_or_default();
            let Some(hours) = &object.spec.limits.gpu_hours else {
                continue;
            };
            let Some(status) = &object.status else {
                continue;
            };
            let Some(until) = status.burnt_until.as_ref().map(|t| t.0.as_second()) else {
                continue;
            };
            for (holder, parts) in by_holder(status) {
                let limit = LimitId {
                    policy: policy.clone(),
                    holder,
                    what: What::GpuHours,
                };
                // What is counted already is of now.
                self.meters.entry(limit).or_insert_with(|| Metered {
                    meter: Meter::resume(hours.window_hours, until, parts),
                    resumed: true,
                    closed: None,
                });
            }
        }
    }

    /// Counts until now, in seconds since 1970, and from now on so many GPUs of each limit that is
    /// drawn on. Says whether each limit may be drawn from.
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
                    // What it allows nobody can read just now: what is burnt is.
                    if let Some(metered) = self.meters.get_mut(&limit) {
                        metered.meter.hold(gpus, now);
                        gates.push((limit, metered.closed));
                    }
                    continue;
                }
                // It is limited no longer.
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
            }
            if std::mem::take(&mut metered.resumed) {
                let until = metered.meter.until();
                metered.meter.hold(gpus, until);
            }
            metered.meter.hold(gpus, now);
            let most = i128::from(hours.limit).saturating_mul(HOUR);
            let is_burnt = metered.meter.burnt() >= most;
            metered.closed = match metered.closed {
                // What still runs moves the time: it is worked out anew when it has come.
                Some(Some(until)) if is_burnt && until > now => Some(Some(until)),
                _ => is_burnt.then(|| metered.meter.falls_below(most)),
            };
            gates.push((limit, metered.closed));
        }
        self.meters.retain(|_, metered| !metered.meter.is_empty());
        gates
    }

    /// When a limit is burnt or has room again, if what is held stays: in seconds since 1970.
    #[must_use]
    pub fn next(&self, policies: &QuotaPolicies) -> Option<i64> {
        let times = self.meters.iter().filter_map(|(limit, metered)| {
            if let Some(until) = metered.closed {
                return until;
            }
            let hours = policies.gpu_hours(&limit.policy)?.limit;
            metered
                .meter
                .reaches(i128::from(hours).saturating_mul(HOUR))
        });
        times.min()
    }

    /// What is burnt, by limit: until when, and in which part of the window.
    pub fn burnt(&self) -> impl Iterator<Item = (&LimitId, i64, Vec<Burnt>)> {
        let meters = self.meters.iter();
        meters.map(|(limit, metered)| {
            let meter = &metered.meter;
            (limit, meter.until(), meter.parts().collect())
        })
    }
}

/// What a status says was burnt.
fn by_holder(status: &QuotaPolicyStatus) -> BTreeMap<Holder, Vec<Burnt>> {
    let mut holders: BTreeMap<Holder, Vec<Burnt>> = BTreeMap::new();
    for part in &status.burnt {
        let BurntGpuTime {
            requester,
            start,
            gpu_seconds,
        } = part;
        let holder = Holder::named(requester.as_deref());
        // What does not read was not written by us.
        let seconds = gpu_seconds.amount().map_or(0, |amount| amount.units_down());
        holders.entry(holder).or_default().push(Burnt {
            start: start.0.as_second(),
            gpu_seconds: i128::from(seconds),
        });
    }
    holders
}

#[cfg(test)]
mod tests;
