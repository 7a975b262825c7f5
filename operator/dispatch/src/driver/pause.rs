//! Pause of a gang whose task failed for the moment.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);

/// It grows with each failure, until a task succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    last: Option<Duration>,
    until: Option<Instant>,
}

impl Pause {
    /// Starts a pause after a failure. Returns the time of the next try.
    pub(super) fn begin(&mut self, now: Instant) -> Instant {
        let pause = self
            .last
            .map_or(FIRST, |last| last.saturating_mul(2).min(LONGEST));
        let until = now.checked_add(pause).unwrap_or(now);
        *self = Self {
            last: Some(pause),
            until: Some(until),
        };
        until
    }

    /// Ends the pause after a success, or because the wish has changed.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// True if the last task failed.
    pub(super) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// The time of the next try, if it is in the future.
    pub(super) fn ends(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_until_it_is_ended() {
        let now = Instant::now();
        let mut pause = Pause::default();
        assert_eq!(pause.ends(now), None);
        let waits: Vec<_> = (0..6)
            .map(|_| pause.begin(now).duration_since(now).as_millis())
            .collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(pause.ends(now), Some(now + LONGEST));
        assert_eq!(pause.ends(now + LONGEST), None);
        pause.end();
        assert_eq!(pause.ends(now), None);
        assert_eq!(pause.begin(now).duration_since(now), FIRST);
    }
}
