//! Converts times and amounts between the API's units and the engine's.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_scheduler::Time;

/// Returns the engine's time.
#[must_use]
pub fn to_engine_time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}

/// Returns the wall-clock time.
#[must_use]
pub fn to_timestamp(at: Time) -> Timestamp {
    Timestamp::from_millisecond(at.as_millis()).unwrap_or(Timestamp::MAX)
}

/// Converts seconds. Negative values count as zero.
pub(crate) fn to_duration(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Returns a quantity of a resource, converted from base units.
#[must_use]
pub fn to_quantity(resource: &str, base_units: i128) -> Quantity {
    let units = i64::try_from(base_units).unwrap_or(i64::MAX);
    let amount = if resource == "cpu" {
        Amount::from_millis(units)
    } else {
        Amount::from_units(units)
    };
    Quantity::new(amount.to_string())
}
