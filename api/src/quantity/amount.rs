//! What quantities are worth, and what is reckoned with them.

use std::fmt;

/// Units in one: amounts are counted in billionths, the smallest that Kubernetes knows (`n`).
pub(super) const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// What a quantity is worth, exactly, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub(super) i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many whole units.
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        // An i64 times a billion is below 2^93.
        Self((units as i128).wrapping_mul(NANOS_PER_UNIT))
    }

    /// So many thousandths.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self((millis as i128).wrapping_mul(NANOS_PER_UNIT / 1000))
    }

    /// The sum. None if it cannot be counted.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// So many hundredths of it, a rest below a billionth left out. None if it cannot
    /// be counted.
    #[must_use]
    pub fn checked_percent(self, hundredths: i64) -> Option<Self> {
        let times = self.0.checked_mul(i128::from(hundredths))?;
        times.checked_div_euclid(100).map(Self)
    }

    /// What is left without the other, at least nothing.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }

    /// Whole units, rounded up. None if that is no i64.
    #[must_use]
    pub fn ceil_units(self) -> Option<i64> {
        div_ceil(self.0, NANOS_PER_UNIT)
    }

    /// Thousandths, rounded up. None if that is no i64.
    #[must_use]
    pub fn ceil_millis(self) -> Option<i64> {
        div_ceil(self.0, 1_000_000)
    }

    /// Whole units, rounded down, as many as there are numbers for.
    #[must_use]
    pub fn floor_units(self) -> i64 {
        div_floor(self.0, NANOS_PER_UNIT)
    }

    /// Thousandths, rounded down, as many as there are numbers for.
    #[must_use]
    pub fn floor_millis(self) -> i64 {
        div_floor(self.0, 1_000_000)
    }

    /// So many times as much. None if it cannot be counted.
    #[must_use]
    pub fn checked_mul(self, times: i64) -> Option<Self> {
        self.0.checked_mul(i128::from(times)).map(Self)
    }

    /// True if there is no fraction.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0.checked_rem(NANOS_PER_UNIT) == Some(0)
    }
}

fn div_floor(value: i128, by: i128) -> i64 {
    let quotient = value.checked_div_euclid(by).unwrap_or_default();
    i64::try_from(quotient).unwrap_or(if quotient > 0 { i64::MAX } else { i64::MIN })
}

fn div_ceil(value: i128, by: i128) -> Option<i64> {
    let quotient = value.checked_div_euclid(by)?;
    let rest = value.checked_rem_euclid(by)?;
    let up = if rest > 0 {
        quotient.checked_add(1)?
    } else {
        quotient
    };
    i64::try_from(up).ok()
}

/// Plainly: `1.5`, `1073741824`.
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
