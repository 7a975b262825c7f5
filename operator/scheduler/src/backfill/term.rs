//! How long a gang holds its place, as far as that is known.

use std::time::Duration;

use crate::predict::corrected;
use crate::time::Time;

/// What is known of the end of a gang, from when it has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// When it got its place.
    pub(crate) since: Time,
    /// It is ended after so long.
    pub(crate) limit: Option<Duration>,
    /// It is thought to take so long; nothing ends it then.
    pub(crate) predicted: Option<Duration>,
    /// How long it may take to stop.
    pub(crate) grace: Duration,
    /// It was told to stop then, and nothing else matters.
    pub(crate) told: Option<Time>,
}

/// When a gang ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: Time,
    /// Something ends it then. Else it is a prediction.
    pub(crate) certain: bool,
}

impl Term {
    /// It ends then, whatever happens.
    pub(crate) fn until(end: Time) -> Self {
        Self {
            since: end,
            limit: Some(Duration::ZERO),
            predicted: None,
            grace: Duration::ZERO,
            told: None,
        }
    }

    /// The term of what was told to stop, and is to be gone by then.
    pub(crate) fn stops_by(end: Time) -> Self {
        Self {
            told: Some(end),
            ..Self::until(end)
        }
    }

    /// The end that is known at this time. None: there is none, or it is past its
    /// limit. A prediction that is exceeded is followed by the next.
    pub(crate) fn end(&self, now: Time) -> Option<End> {
        if let Some(told) = self.told {
            let at = told.plus(self.grace);
            return (at >= now).then_some(End { at, certain: true });
        }
        let limit = self.limit.map(|limit| self.after(limit));
        let predicted = self.predicted.map(|predicted| {
            let ran = now.since(self.since).saturating_sub(self.grace);
            self.after(corrected(predicted, ran))
        });
        let end = match (limit, predicted) {
            (limit, Some(at)) if limit.is_none_or(|limit| at < limit) => End { at, certain: false },
            (limit, _) => End {
                at: limit?,
                certain: true,
            },
        };
        (end.at >= now).then_some(end)
    }

    /// Its place among those whose end is not known: those that were told to stop,
    /// then by when they were placed.
    pub(crate) fn rank(&self) -> Option<Time> {
        self.told.is_none().then_some(self.since)
    }

    fn after(&self, runtime: Duration) -> Time {
        self.since.plus(runtime).plus(self.grace)
    }
}
