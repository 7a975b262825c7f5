//! Values of quantities, and arithmetic on them.

use std::fmt;

/// Amounts are counted in billionths (`n`), the smallest unit that Kubernetes knows.
pub(super) const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// Exact value of a quantity, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub(super) i128);

impl Amount {
    /// The amount 0.
    pub const ZERO: Self = Self(0);

    /// Converts whole units.
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        // An i64 times a billion is below 2^93.
        Self((units as i128).wrapping_mul(NANOS_PER_UNIT))
    }

    /// Converts thousandths.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self((millis as i128).wrapping_mul(NANOS_PER_UNIT / 1000))
    }

    /// Returns the sum, or None if it overflows.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns a percentage, rounded down to billionths, or None if it overflows.
    #[must_use]
    pub fn checked_percent(self, hundredths: i64) -> Option<Self> {
        let times = self.0.checked_mul(i128::from(hundredths))?;
        times.checked_div_euclid(100).map(Self)
    }

    /// Returns the difference, at least 0.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }

    /// Returns whole units, rounded up, or None if they exceed an i64.
    #[must_use]
    pub fn ceil_units(self) -> Option<i64> {
        div_ceil(self.0, NANOS_PER_UNIT)
    }

    /// Returns thousandths, rounded up, or None if they exceed an i64.
    #[must_use]
    pub fn ceil_millis(self) -> Option<i64> {
        div_ceil(self.0, 1_000_000)
    }

    /// Returns whole units, rounded down and limited to the range of an i64.
    #[must_use]
    pub fn floor_units(self) -> i64 {
        div_floor(self.0, NANOS_PER_UNIT)
    }

    /// Returns thousandths, rounded down and limited to the range of an i64.
    #[must_use]
    pub fn floor_millis(self) -> i64 {
        div_floor(self.0, 1_000_000)
    }

    /// Returns the product, or None if it overflows.
    #[must_use]
    pub fn checked_mul(self, times: i64) -> Option<Self> {
        self.0.checked_mul(i128::from(times)).map(Self)
    }

    /// True if the amount has no fraction.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0.checked_rem(NANOS_PER_UNIT) == Some(0)
    }
}

fn div_floor(value: i128, divisor: i128) -> i64 {
    let quotient = value.checked_div_euclid(divisor).unwrap_or_default();
    i64::try_from(quotient).unwrap_or(if quotient > 0 { i64::MAX } else { i64::MIN })
}

fn div_ceil(value: i128, divisor: i128) -> Option<i64> {
    let quotient = value.checked_div_euclid(divisor)?;
    let rest = value.checked_rem_euclid(divisor)?;
    let up = if rest > 0 {
        quotient.checked_add(1)?
    } else {
        quotient
    };
    i64::try_from(up).ok()
}

/// Formats the amount without a suffix: `1.5`, `1073741824`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.checked_div(NANOS_PER_UNIT).unwrap_or_default();
        let rest = self
            .0
            .checked_rem(NANOS_PER_UNIT)
            .unwrap_or_default()
            .unsigned_abs();
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let sign = if self.0 < 0 && whole == 0 { "-" } else { "" };
        let fraction = format!("{rest:09}");
        write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}
