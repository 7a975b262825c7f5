//! Pause of a gang whose task failed for the moment.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The pause, which grows with each failure until a task succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::driver) struct RetryPause {
    last: Option<Duration>,
    until: Option<Instant>,
}

impl RetryPause {
    /// Starts a pause after a failure. Returns the time of the next try.
    pub(in crate::driver) fn begin(&mut self, now: Instant) -> Instant {
        let pause = self.last.map_or(FIRST_PAUSE, |last| {
            last.saturating_mul(2).min(LONGEST_PAUSE)
        });
        let until = now.checked_add(pause).unwrap_or(now);
        *self = Self {
            last: Some(pause),
            until: Some(until),
        };
        until
    }

    /// Ends the pause after a success, or because the wish has changed.
    pub(in crate::driver) fn end(&mut self) {
        *self = Self::default();
    }

    /// Returns true if the last task failed.
    pub(in crate::driver) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Returns the time of the next try, if it is in the future.
    pub(in crate::driver) fn next_try(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_until_a_success_ends_it() {
        let now = Instant::now();
        let mut pause = RetryPause::default();
        assert_eq!(pause.next_try(now), None);
        let waits: Vec<_> = (0..6)
            .map(|_| pause.begin(now).duration_since(now).as_millis())
            .collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(pause.next_try(now), Some(now + LONGEST_PAUSE));
        assert_eq!(pause.next_try(now + LONGEST_PAUSE), None);
        pause.end();
        assert_eq!(pause.next_try(now), None);
        assert_eq!(pause.begin(now).duration_since(now), FIRST_PAUSE);
    }
}
