//! The pause of a gang whose task could not do its work for the moment.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);

/// It grows each time, until a task does its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    last: Option<Duration>,
    until: Option<Instant>,
}

impl Pause {
    /// The task could not. Gives the time of the next try.
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

    /// The task could, or something else is wanted.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// True if the task could not, the last time.
    pub(super) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// The time of the next try, if that is to come.
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
