//! Current and past usage of a resource by a queue.

use super::decay::{DecayClock, halve};
use crate::time::Time;

/// Decayed usage, in [`DecayedAmount::PER_UNIT`]ths of a base unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecayedAmount(i128);

impl DecayedAmount {
    const BITS: u32 = 20;

    /// The number of parts in one base unit.
    pub const PER_UNIT: i128 = 1 << Self::BITS;

    /// Creates an amount from [`DecayedAmount::PER_UNIT`]ths of a base unit. A negative number
    /// counts as 0.
    #[must_use]
    pub const fn from_parts(parts: i128) -> Self {
        Self(if parts > 0 { parts } else { 0 })
    }

    /// Returns the amount in [`DecayedAmount::PER_UNIT`]ths of a base unit.
    #[must_use]
    pub const fn as_parts(self) -> i128 {
        self.0
    }
}

/// Units of a resource that a queue's whole subtree holds, over all flavors, and how far its
/// decayed usage lags behind (see [`super::decay`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::quota) struct UsageMemory {
    current: i128,
    /// The lag when this half-life began; in 2^-32 of a base unit.
    lag: i128,
    epoch: i64,
}

impl UsageMemory {
    pub(in crate::quota) const fn current(&self) -> i128 {
        self.current
    }

    /// Adds `amount` to the usage.
    pub(in crate::quota) fn add(&mut self, amount: i128, clock: &DecayClock) {
        let at = clock.current_instant();
        let added = amount.saturating_mul(at.growth);
        self.lag = self.lag(clock).saturating_add(added);
        self.epoch = at.epoch;
        self.current = self.current.saturating_add(amount);
    }

    fn lag(&self, clock: &DecayClock) -> i128 {
        halve(
            self.lag,
            clock.current_instant().epoch.saturating_sub(self.epoch),
        )
    }

    /// Returns true if there is neither current nor remembered usage.
    pub(in crate::quota) fn is_empty(&self, clock: &DecayClock) -> bool {
        self.current == 0 && self.lag(clock) == 0
    }

    fn current_parts(&self) -> i128 {
        self.current.saturating_mul(DecayedAmount::PER_UNIT)
    }

    /// Returns how far the decayed usage now lags behind the current usage.
    fn lag_parts(&self, clock: &DecayClock) -> i128 {
        self.lag(clock)
            .saturating_mul(DecayedAmount::PER_UNIT)
            .checked_div(clock.current_instant().growth)
            .unwrap_or(0)
    }

    pub(in crate::quota) fn decayed(&self, clock: &DecayClock) -> DecayedAmount {
        let behind = self.lag_parts(clock);
        DecayedAmount::from_parts(self.current_parts().saturating_sub(behind))
    }

    /// Returns the decayed usage that the order uses (see
    /// [`super::decay::UsageDecay::with_half_life`]).
    pub(in crate::quota) fn order_usage(&self, clock: &DecayClock) -> DecayedAmount {
        let behind = self.lag_parts(clock).saturating_mul(clock.fade()) >> 32;
        DecayedAmount::from_parts(self.current_parts().saturating_sub(behind))
    }

    /// Returns the lag when its half-life began, and the number of that half-life.
    pub(in crate::quota) const fn exact_lag(&self) -> (i128, i64) {
        (self.lag, self.epoch)
    }

    /// Replaces the lag by one that [`Self::exact_lag`] returned.
    pub(in crate::quota) const fn set_exact_lag(&mut self, (lag, epoch): (i128, i64)) {
        (self.lag, self.epoch) = (lag, epoch);
    }

    /// Sets the decayed usage at a time in the past. Current usage counts as held since then.
    pub(in crate::quota) fn restore(
        &mut self,
        decayed: DecayedAmount,
        at: Time,
        clock: &DecayClock,
    ) {
        let then = clock.instant(at);
        let behind = self.current_parts().saturating_sub(decayed.as_parts());
        // Rounds away from 0, so that `decayed` at that time returns the same value.
        let up = behind
            .signum()
            .saturating_mul(DecayedAmount::PER_UNIT.saturating_sub(1));
        self.lag = behind
            .saturating_mul(then.growth)
            .saturating_add(up)
            .checked_div(DecayedAmount::PER_UNIT)
            .unwrap_or(0);
        self.epoch = then.epoch;
    }
}
