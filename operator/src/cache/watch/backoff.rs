//! Pauses of a broken watch.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause, and that of a watch that ends as it should.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A watch that has been silent and unbroken for this long is a healthy one.
const CALM: Duration = Duration::from_secs(60);

/// Pauses of a broken watch: longer each time, until it is healthy again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Option<Duration>,
    broke: Option<Instant>,
}

impl Backoff {
    /// It broke. Gives how long nothing is asked.
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

    /// Something came.
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
