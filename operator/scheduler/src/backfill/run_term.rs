//! The known facts about how long a gang stays placed.

use std::time::Duration;

use crate::runtime_predictor::correct_prediction;
use crate::time::Time;

/// The known facts about the end of a placed gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunTerm {
    /// When the gang was placed.
    pub(crate) since: Time,
    /// The longest time that the gang stays placed. The caller then ends it.
    pub(crate) limit: Option<Duration>,
    /// The predicted runtime. The gang may exceed it.
    pub(crate) predicted: Option<Duration>,
    /// How long the gang may take to stop.
    pub(crate) grace: Duration,
    /// When the gang got the request to stop. If set, only `grace` also counts for its end.
    pub(crate) stop_requested: Option<Time>,
}

/// When a gang ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedEnd {
    pub(crate) at: Time,
    /// True if the caller ends the gang at that time. False: the end is a prediction.
    pub(crate) certain: bool,
}

impl RunTerm {
    /// Returns the term of a gang that certainly ends at this time.
    pub(crate) fn ending_at(end: Time) -> Self {
        Self {
            since: end,
            limit: Some(Duration::ZERO),
            predicted: None,
            grace: Duration::ZERO,
            stop_requested: None,
        }
    }

    /// Returns the term of a gang that is stopping and should be gone at this time.
    pub(crate) fn stopping_until(end: Time) -> Self {
        Self {
            stop_requested: Some(end),
            ..Self::ending_at(end)
        }
    }

    /// Returns the known end as of `now`. None: there is none, or the gang is past its limit. If
    /// the gang has exceeded a prediction, the next one counts.
    pub(crate) fn end(&self, now: Time) -> Option<ExpectedEnd> {
        if let Some(requested_at) = self.stop_requested {
            let at = requested_at.plus(self.grace);
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

    /// Returns its rank among gangs without a known end: stopping gangs first, then by the time of
    /// their placement.
    pub(crate) fn rank(&self) -> Option<Time> {
        self.stop_requested.is_none().then_some(self.since)
    }

    fn end_after(&self, runtime: Duration) -> Time {
        self.since.plus(runtime).plus(self.grace)
    }
}
