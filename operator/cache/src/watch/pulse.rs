//! The last sign of life of a watch.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last sign of life of one watch: a list, an event, a bookmark, a watch call that does not end
/// at once, or a watch call that ends normally. A kind without changes gives a sign about every 100
/// s, when its watch call restarts.
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
