//! Moves of estimates that are too small to tell. Pure.
//!
//! Expected times and decayed usage move all the time: the end of one job moves the expected starts of
//! all jobs behind it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::quantity::Amount;
use crate::queue::DecayedUsage;

/// Smallest move of an expected time that is told.
const MIN_MOVE: SignedDuration = SignedDuration::from_secs(5);

/// Parts of an estimate within which a move is not told.
const PARTS: i32 = 100;

/// Returns true if an expected time has moved by at most five seconds, or by one percent of the time
/// that is left.
#[must_use]
pub fn is_same_estimate(old: Option<&Time>, new: Option<&Time>, now: Timestamp) -> bool {
    let (old, new) = match (old, new) {
        (None, None) => return true,
        (Some(old), Some(new)) => (old.0, new.0),
        _ => return false,
    };
    let moved = new.duration_since(old).abs();
    let left = old.duration_since(now).abs();
    let part = left.checked_div(PARTS).unwrap_or_default();
    moved <= MIN_MOVE.max(part)
}

/// Returns true if each amount has moved by at most one percent.
#[must_use]
pub fn is_same_usage(old: &[DecayedUsage], new: &[DecayedUsage]) -> bool {
    let mut pairs = old.iter().zip(new);
    old.len() == new.len()
        && pairs.all(|(old, new)| old.resource == new.resource && is_near(old, new))
}

fn is_near(old: &DecayedUsage, new: &DecayedUsage) -> bool {
    let units = |usage: &DecayedUsage| usage.amount.amount().map(Amount::floor_units);
    match (units(old), units(new)) {
        (Ok(old), Ok(new)) => {
            let moved = new.saturating_sub(old).saturating_abs();
            moved.saturating_mul(PARTS.into()) <= old.saturating_abs()
        }
        _ => old.amount == new.amount,
    }
}
