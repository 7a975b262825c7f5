//! The time of day.

use jiff::Timestamp;

use crate::SimulatedMachine;

/// Returns the time of day. For durations, use `tokio::time::Instant`, which no administrator sets
/// back.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn now() -> Timestamp {
    SimulatedMachine::with_entered(SimulatedMachine::now).unwrap_or_else(Timestamp::now)
}
