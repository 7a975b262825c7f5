//! Expected starts and ends of jobs, computed in the background: a forecast may take seconds, which
//! is too long for a list.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trellis_machine::threads;
use trellis_scheduler::{Forecast, Snapshot};

/// Most events to look ahead: starts or ends of gangs.
const MAX_EVENTS: usize = 20_000;
/// Longest time to compute a forecast.
const MAX_COMPUTE_TIME: Duration = Duration::from_secs(2);
/// How long an answer waits for a forecast. With few jobs it takes less.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Age above which a forecast is no longer shown.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Returns the limit of a forecast that begins now.
pub(super) fn compute_limit() -> impl FnMut(usize) -> bool {
    let began = Instant::now();
    move |moments| moments < MAX_EVENTS && began.elapsed() < MAX_COMPUTE_TIME
}

/// The last forecast.
#[derive(Clone, Debug, Default)]
pub(super) struct ForecastCache(Arc<Mutex<ForecastState>>);

#[derive(Debug, Default)]
struct ForecastState {
    last: Option<(Instant, Arc<Forecast>)>,
    /// True while a forecast is being computed.
    is_computing: bool,
    /// Earliest start of the next forecast. It limits forecasts to a third of a core.
    next_start: Option<Instant>,
}

impl ForecastCache {
    /// Returns the forecast for this snapshot if it is ready in time, else a recent forecast. None:
    /// there is no forecast yet.
    pub(super) async fn get(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Forecast>> {
        if self.try_begin() {
            let (cache, snapshot) = (self.clone(), snapshot.clone());
            let forecast = threads::spawn_blocking(move || cache.compute(&snapshot));
            // The computation continues after the timeout.
            let _ = tokio::time::timeout(MAX_WAIT, forecast).await;
        }
        let state = self.0.lock();
        let (at, last) = state.last.as_ref()?;
        (at.elapsed() < MAX_AGE).then(|| last.clone())
    }

    /// Returns true if the caller has to compute the forecast.
    fn try_begin(&self) -> bool {
        let mut state = self.0.lock();
        let rests = state.next_start.is_some_and(|until| Instant::now() < until);
        let begins = !state.is_computing && !rests;
        state.is_computing |= begins;
        begins
    }

    fn compute(&self, snapshot: &Snapshot) {
        // The next forecast may begin even if this one panics.
        let _done = ComputeGuard(self);
        let began = Instant::now();
        let forecast = Arc::new(Forecast::from_snapshot(snapshot, compute_limit()));
        let took = began.elapsed();
        let mut state = self.0.lock();
        state.next_start = Instant::now().checked_add(took.saturating_mul(2));
        state.last = Some((began, forecast));
    }
}

struct ComputeGuard<'f>(&'f ForecastCache);

impl Drop for ComputeGuard<'_> {
    fn drop(&mut self) {
        self.0.0.lock().is_computing = false;
    }
}
