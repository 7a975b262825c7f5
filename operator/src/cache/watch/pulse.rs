//! When a watch last showed that it lives.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last sign of life of one watch: a list, an event, a bookmark, that it has
/// not ended at once, or an end that is as it should be. Of a kind of which nothing is written there is one
/// each 100 s or so, when its watch begins anew.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Mutex<Instant>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pulse {
    /// It lives.
    pub fn beat(&self) {
        *self.0.lock() = Instant::now();
    }

    /// How long ago that was.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.0.lock().elapsed()
    }
}
