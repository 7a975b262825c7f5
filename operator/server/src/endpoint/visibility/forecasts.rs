//! Expected starts and ends of jobs, computed in the background: a forecast may take seconds, which
//! is too long for a list.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trellis_scheduler::{Forecast, Snapshot};

/// Most events to look ahead: starts or ends of gangs.
const AHEAD: usize = 20_000;
/// Longest time to compute a forecast.
const LOOK_AHEAD: Duration = Duration::from_secs(2);
/// How long an answer waits for a forecast. With few jobs it takes less.
const WAIT: Duration = Duration::from_millis(200);
/// Age at which a forecast is not shown any more.
const OLD: Duration = Duration::from_secs(60);

/// The last forecast.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecasts(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Arc<Forecast>)>,
    /// A forecast is being computed.
    busy: bool,
    /// Earliest start of the next forecast: forecasts never take more than a third of a core.
    rests: Option<Instant>,
}

impl Forecasts {
    /// The forecast for this snapshot, if it is computed in time, else a recent one. None: there is
    /// none yet.
    pub(super) async fn of(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Forecast>> {
        if self.begin() {
            let (kept, snapshot) = (self.clone(), snapshot.clone());
            let made = tokio::task::spawn_blocking(move || kept.make(&snapshot));
            // The computation continues after the timeout.
            let _ = tokio::time::timeout(WAIT, made).await;
        }
        let state = self.0.lock();
        let (at, last) = state.last.as_ref()?;
        (at.elapsed() < OLD).then(|| last.clone())
    }

    /// True: the caller has to compute the forecast.
    fn begin(&self) -> bool {
        let mut state = self.0.lock();
        let rests = state.rests.is_some_and(|until| Instant::now() < until);
        let begins = !state.busy && !rests;
        state.busy |= begins;
        begins
    }

    fn make(&self, snapshot: &Snapshot) {
        // The next forecast may begin even if this one panics.
        let _done = Done(self);
        let began = Instant::now();
        let go_on = |moments| moments < AHEAD && began.elapsed() < LOOK_AHEAD;
        let made = Arc::new(Forecast::of(snapshot, go_on));
        let took = began.elapsed();
        let mut state = self.0.lock();
        state.rests = Instant::now().checked_add(took.saturating_mul(2));
        state.last = Some((began, made));
    }
}

struct Done<'f>(&'f Forecasts);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.0.lock().busy = false;
    }
}
