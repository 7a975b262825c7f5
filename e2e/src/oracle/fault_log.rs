//! The times of the faults that tests inject. Bounds of time do not hold during a fault.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trellis_verify::Health;

/// Time after a fault in which Trellis may still wait to try again.
const SETTLE_TIME: Duration = Duration::from_secs(30);

/// The faults that tests inject into one control plane and its clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultLog(Arc<Mutex<FaultTimes>>);

#[derive(Debug, Default)]
struct FaultTimes {
    active: usize,
    last_end: Option<Instant>,
}

/// A fault that lasts until this value is dropped.
#[derive(Debug)]
pub struct ActiveFault(FaultLog);

impl FaultLog {
    /// Records the begin of a fault.
    pub(crate) fn begin(&self) -> ActiveFault {
        self.times().active += 1;
        ActiveFault(self.clone())
    }

    /// Returns true while a fault lasts.
    pub(crate) fn has_active_fault(&self) -> bool {
        self.times().active > 0
    }

    /// Returns true if a fault has lasted at that time or later, or had just ended.
    pub(super) fn was_disturbed_since(&self, time: Instant) -> bool {
        let is_recent = |end: Instant| end + SETTLE_TIME > time;
        self.has_active_fault() || self.times().last_end.is_some_and(is_recent)
    }

    pub(super) fn health(&self) -> Health {
        match self.was_disturbed_since(Instant::now()) {
            true => Health::Unhealthy,
            false => Health::Healthy,
        }
    }

    fn times(&self) -> MutexGuard<'_, FaultTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        let mut times = self.0.times();
        times.active -= 1;
        times.last_end = Some(Instant::now());
    }
}
