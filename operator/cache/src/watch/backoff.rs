//! Pauses before a broken watch starts again.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause, and the pause after a watch that ended as it should.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// After this time without a break a watch counts as healthy.
const CALM: Duration = Duration::from_secs(60);

/// Pauses before a broken watch starts again: each is longer than the last, until the watch is
/// healthy.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Option<Duration>,
    broke: Option<Instant>,
}

impl Backoff {
    /// Records a break. Returns the pause until the next request.
    pub(super) fn broken(&mut self, now: Instant) -> Duration {
        let calm = |at: Instant| now.saturating_duration_since(at) > CALM;
        if self.broke.is_some_and(calm) {
            self.healthy();
        }
        self.broke = Some(now);
        let pause = self.pause.unwrap_or(FIRST_PAUSE);
        self.pause = Some(pause.saturating_mul(2).min(LONGEST_PAUSE));
        pause
    }

    /// Records an event: the watch works.
    pub(super) fn healthy(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_it_is_healthy_or_was_calm() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        assert_eq!(backoff.broken(now), FIRST_PAUSE);
        assert_eq!(backoff.broken(now), 2 * FIRST_PAUSE);
        backoff.healthy();
        assert_eq!(backoff.broken(now), FIRST_PAUSE);
        assert_eq!(backoff.broken(now + 2 * CALM), FIRST_PAUSE, "it was calm");
        for _ in 0..9 {
            backoff.broken(now + 2 * CALM);
        }
        assert_eq!(backoff.broken(now + 2 * CALM), LONGEST_PAUSE);
    }
}
