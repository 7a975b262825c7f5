//! How long a gang stays placed, as far as that is known.

use std::time::Duration;

use crate::runtime_predictor::correct_prediction;
use crate::time::Time;

/// The known facts about the end of a placed gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunTerm {
    /// When it was placed.
    pub(crate) since: Time,
    /// The longest time that it stays placed: it is ended then.
    pub(crate) limit: Option<Duration>,
    /// Its predicted runtime; nothing ends it then.
    pub(crate) predicted: Option<Duration>,
    /// How long it may take to stop.
    pub(crate) grace: Duration,
    /// When it was told to stop; then the other fields do not matter.
    pub(crate) stop_requested: Option<Time>,
}

/// When a gang ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedEnd {
    pub(crate) at: Time,
    /// True if the gang is ended at that time. False: the end is a prediction.
    pub(crate) certain: bool,
}

impl RunTerm {
    /// The term of a gang that certainly ends at this time.
    pub(crate) fn ending_at(end: Time) -> Self {
        Self {
            since: end,
            limit: Some(Duration::ZERO),
            predicted: None,
            grace: Duration::ZERO,
            stop_requested: None,
        }
    }

    /// The term of a gang that was told to stop and should be gone at this time.
    pub(crate) fn stopping_until(end: Time) -> Self {
        Self {
            stop_requested: Some(end),
            ..Self::ending_at(end)
        }
    }

    /// The known end as of `now`. None: there is none, or the gang is past its limit. An exceeded
    /// prediction is followed by the next one.
    pub(crate) fn end(&self, now: Time) -> Option<ExpectedEnd> {
        if let Some(told) = self.stop_requested {
            let at = told.plus(self.grace);
            return (at >= now).then_some(ExpectedEnd { at, certain: true });
        }
        let limit = self.limit.map(|limit| self.end_after(limit));
        let predicted = self.predicted.map(|predicted| {
            let ran = now.since(self.since).saturating_sub(self.grace);
            self.end_after(correct_prediction(predicted, ran))
        });
        let end = match (limit, predicted) {
            (limit, Some(at)) if limit.is_none_or(|limit| at < limit) => {
                ExpectedEnd { at, certain: false }
            }
            (limit, _) => ExpectedEnd {
                at: limit?,
                certain: true,
            },
        };
        (end.at >= now).then_some(end)
    }

    /// Its rank among gangs without a known end: first those that were told to stop, then by when
    /// they were placed.
    pub(crate) fn rank(&self) -> Option<Time> {
        self.stop_requested.is_none().then_some(self.since)
    }

    fn end_after(&self, runtime: Duration) -> Time {
        self.since.plus(runtime).plus(self.grace)
    }
}
