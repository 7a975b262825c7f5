//! The last sign of life of a watch.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last sign of life of one watch: a list, an event, a bookmark, a watch call that does not end
/// at once, or one that ends as it should. A kind of which nothing is written gives one about every
/// 100 s, when its watch call begins anew.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Mutex<Instant>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pulse {
    /// Records a sign of life.
    pub fn beat(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Returns the time since the last sign of life.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.0.lock().elapsed()
    }
}
