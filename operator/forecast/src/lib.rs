//! Compares two forecasts of the scheduler: with and without changes of the cluster. Pure. The leader
//! answers callers of the API server with it, and `trellis what-if` also computes it from a snapshot
//! in a file.
//!
//! `changes` applies the changes to an engine, and `comparison` compares two forecasts.

mod changes;
mod comparison;
mod invalid_change;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use trellis_api::visibility::{ForecastSpec, ForecastStatus};
use trellis_gang::engine::to_timestamp;
use trellis_scheduler::{Forecast, Snapshot};

pub use invalid_change::{InvalidChange, InvalidChanges};

use changes::ChangedCluster;
use comparison::ForecastedCluster;

/// Forecasts the jobs of a snapshot with and without these changes.
///
/// `new_limit` makes the limit of each of the two forecasts. A forecast calls its limit before each
/// moment at which gangs start or end, with the number of earlier moments. False stops the forecast.
///
/// # Errors
/// If a change cannot be made. The error names all such changes.
pub fn forecast_changes<L: FnMut(usize) -> bool>(
    snapshot: &Snapshot,
    spec: &ForecastSpec,
    new_limit: impl Fn() -> L,
) -> Result<ForecastStatus, InvalidChanges> {
    let changed = ChangedCluster::from_snapshot(snapshot).apply(spec)?;
    let before = Forecast::from_snapshot(snapshot, new_limit());
    let after = Forecast::from_snapshot(&changed, new_limit());
    // Both forecasts are compared up to the moment at which the first of them stopped.
    let horizon = before.cut_off.into_iter().chain(after.cut_off).min();
    let comparison = comparison::compare(
        &ForecastedCluster::new(snapshot, &before, horizon),
        &ForecastedCluster::new(&changed, &after, horizon),
    );
    Ok(ForecastStatus {
        time: MetaTime(to_timestamp(snapshot.now)),
        jobs: comparison.moved,
        unmoved: comparison.unmoved,
        horizon: horizon.map(|horizon| MetaTime(to_timestamp(horizon))),
    })
}

#[cfg(test)]
mod tests;
