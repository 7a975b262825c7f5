//! When jobs start and end, worked out beside the answers: a look ahead may take seconds, and
//! nobody waits so long for a list.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trellis_scheduler::{Forecast, Snapshot};

/// Moments that are looked ahead at most: gangs that start or end.
const AHEAD: usize = 20_000;
/// Longest time to look ahead.
const LOOK_AHEAD: Duration = Duration::from_secs(2);
/// So long an answer waits for it. Where little waits it takes less.
const WAIT: Duration = Duration::from_millis(200);
/// What was worked out so long ago is not told any more.
const OLD: Duration = Duration::from_secs(60);

/// The last look ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecasts(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Arc<Forecast>)>,
    /// One is being worked out.
    busy: bool,
    /// The next begins then at the soonest: it never takes more than a third of a core.
    rests: Option<Instant>,
}

impl Forecasts {
    /// What is known of when jobs start and end: of this snapshot if that is worked out soon,
    /// else of one not long before. None: nothing yet.
    pub(super) async fn of(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Forecast>> {
        if self.begin() {
            let (kept, snapshot) = (self.clone(), snapshot.clone());
            let made = tokio::task::spawn_blocking(move || kept.make(&snapshot));
            // It goes on if nobody waits for it any more.
            let _ = tokio::time::timeout(WAIT, made).await;
        }
        let state = self.0.lock();
        let (at, last) = state.last.as_ref()?;
        (at.elapsed() < OLD).then(|| last.clone())
    }

    /// True: the caller is to work it out.
    fn begin(&self) -> bool {
        let mut state = self.0.lock();
        let rests = state.rests.is_some_and(|until| Instant::now() < until);
        let begins = !state.busy && !rests;
        state.busy |= begins;
        begins
    }

    fn make(&self, snapshot: &Snapshot) {
        // However it ends, the next may begin.
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
