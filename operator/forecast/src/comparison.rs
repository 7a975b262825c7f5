//! Compares the jobs of two forecasts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use trellis_api::visibility::{ExpectedTimes, ForecastEffect, MovedJob};
use trellis_gang::engine::{self, to_timestamp};
use trellis_gang::external;
use trellis_scheduler::{Forecast, Gang, GangId, PlacedStateSnapshot, Snapshot, Time};

/// A forecast, and the gangs of the snapshot from which it starts.
pub(crate) struct ForecastedCluster<'a> {
    now: Time,
    /// The first moment that is not known. None: all are.
    horizon: Option<Time>,
    forecast: &'a Forecast,
    /// Gangs, and whether they hold their place.
    gangs: BTreeMap<&'a GangId, (&'a Gang, bool)>,
}

/// The differences.
pub(crate) struct Comparison {
    /// Jobs that move, by name.
    pub(crate) moved: Vec<MovedJob>,
    /// Number of jobs that do not move.
    pub(crate) unmoved: u64,
}

impl<'a> ForecastedCluster<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        forecast: &'a Forecast,
        horizon: Option<Time>,
    ) -> Self {
        let gangs = snapshot.gangs.iter().filter(|known| !known.gang.surplus);
        let gangs = gangs.map(|known| {
            let place = known.place.as_ref();
            let holds = place.is_some_and(|place| place.standing != PlacedStateSnapshot::Nominated);
            (&known.gang.id, (&known.gang, holds))
        });
        Self {
            now: snapshot.now,
            horizon,
            forecast,
            gangs: gangs.collect(),
        }
    }

    fn times(&self, id: &GangId) -> Option<ExpectedTimes> {
        let (_, placed) = self.gangs.get(id)?;
        let is_known =
            |time: Time| time >= self.now && self.horizon.is_none_or(|horizon| time < horizon);
        let future = |time: Option<&Time>| {
            let time = time.filter(|time| is_known(**time));
            time.map(|time| MetaTime(to_timestamp(*time)))
        };
        let start = future(self.forecast.starts.get(id)).filter(|_| !placed);
        // A job that does not start does not end.
        let end = future(self.forecast.ends.get(id)).filter(|_| *placed || start.is_some());
        Some(ExpectedTimes {
            placed: *placed,
            stops: end.is_some() && self.forecast.stopped.contains(id),
            start,
            end,
        })
    }
}

pub(crate) fn compare(before: &ForecastedCluster<'_>, after: &ForecastedCluster<'_>) -> Comparison {
    let ids: BTreeSet<&GangId> = before
        .gangs
        .keys()
        .chain(after.gangs.keys())
        .copied()
        .collect();
    let mut comparison = Comparison {
        moved: Vec::new(),
        unmoved: 0,
    };
    for id in ids {
        let (old, new) = (before.times(id), after.times(id));
        let gang = after.gangs.get(id).or_else(|| before.gangs.get(id));
        let Some((gang, _)) = gang else { continue };
        let Some(effect) = effect(old.as_ref(), new.as_ref()) else {
            comparison.unmoved = comparison.unmoved.saturating_add(1);
            continue;
        };
        comparison.moved.push(MovedJob {
            job: external::job_ref(&engine::job_key(id)),
            queue: gang.queue.to_string(),
            gpus: gang.device_count(),
            effect,
            before: old,
            after: new,
        });
    }
    comparison
}

/// Returns what the changes do to a job. None: nothing.
fn effect(before: Option<&ExpectedTimes>, after: Option<&ExpectedTimes>) -> Option<ForecastEffect> {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(_)) => return Some(ForecastEffect::Added),
        (Some(_), None) => return Some(ForecastEffect::Removed),
        (None, None) => return None,
    };
    if before == after {
        return None;
    }
    Some(match (before.placed, after.placed) {
        (true, false) => ForecastEffect::Stops,
        (false, true) => ForecastEffect::Earlier,
        _ if before.stops != after.stops && before.start == after.start => match after.stops {
            true => ForecastEffect::Stops,
            false => ForecastEffect::Stays,
        },
        _ => match (&before.start, &after.start) {
            (old, new) if old == new => ForecastEffect::OtherEnd,
            (None, Some(_)) => ForecastEffect::Earlier,
            (Some(old), Some(new)) if new.0 < old.0 => ForecastEffect::Earlier,
            _ => ForecastEffect::Later,
        },
    })
}
