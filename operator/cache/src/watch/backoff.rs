//! Pauses before a broken watch starts again.

use std::time::Duration;

use tokio::time::Instant;

/// First pause, and pause after a watch that ended normally.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// After this time without a break a watch counts as healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Pauses before a broken watch starts again: each is longer than the last, until the watch is
/// healthy.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Option<Duration>,
    last_break: Option<Instant>,
}

impl Backoff {
    /// Records a break. Returns the pause until the next request.
    pub(super) fn record_break(&mut self, now: Instant) -> Duration {
        let calm = |at: Instant| now.saturating_duration_since(at) > HEALTHY_AFTER;
        if self.last_break.is_some_and(calm) {
            self.reset();
        }
        self.last_break = Some(now);
        let pause = self.pause.unwrap_or(FIRST_PAUSE);
        self.pause = Some(pause.saturating_mul(2).min(MAX_PAUSE));
        pause
    }

    /// Records an event: the watch works.
    pub(super) fn reset(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_until_the_watch_is_healthy() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        assert_eq!(backoff.record_break(now), FIRST_PAUSE);
        assert_eq!(backoff.record_break(now), 2 * FIRST_PAUSE);
        backoff.reset();
        assert_eq!(backoff.record_break(now), FIRST_PAUSE);
        assert_eq!(
            backoff.record_break(now + 2 * HEALTHY_AFTER),
            FIRST_PAUSE,
            "it was calm"
        );
        for _ in 0..9 {
            backoff.record_break(now + 2 * HEALTHY_AFTER);
        }
        assert_eq!(backoff.record_break(now + 2 * HEALTHY_AFTER), MAX_PAUSE);
    }
}
