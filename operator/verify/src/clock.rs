//! The time in which the cluster was healthy. Bounds of rules count this time alone: an operator
//! cannot act while the API server is down.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// State of the cluster since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The API server answered, and no fault is known.
    Healthy,
    /// The API server did not answer, or a fault is known.
    Unhealthy,
}

/// The longest time that one report can count as healthy. A process that slept does not know what
/// happened meanwhile.
const MAX_REPORT: SignedDuration = SignedDuration::from_secs(5);

/// Counts healthy time.
#[derive(Debug)]
pub(crate) struct HealthyClock {
    start: Timestamp,
    now: Timestamp,
    healthy: SignedDuration,
}

/// A moment of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// When the source saw it.
    pub(crate) time: Timestamp,
    /// Healthy time since the start of the history. Negative before the start.
    pub(crate) healthy: SignedDuration,
}

impl HealthyClock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self {
            start,
            now: start,
            healthy: SignedDuration::ZERO,
        }
    }

    /// Advances to a later time. An earlier time changes nothing.
    pub(crate) fn advance(&mut self, to: Timestamp, health: Health) {
        let passed = to.duration_since(self.now);
        if passed.is_negative() {
            return;
        }
        self.now = to;
        if health == Health::Healthy {
            self.healthy = self.healthy.saturating_add(passed.min(MAX_REPORT));
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            time: self.now,
            healthy: self.healthy,
        }
    }

    /// Returns the moment of a time before the history. The cluster counts as healthy there,
    /// because its state is not known.
    pub(crate) fn moment_before_start(&self, time: Timestamp) -> Moment {
        let time = time.min(self.start);
        Moment {
            time,
            healthy: time.duration_since(self.start),
        }
    }
}
