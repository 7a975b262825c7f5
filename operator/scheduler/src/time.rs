//! Time. The caller passes it as an argument, because the engine has no clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(i64);

const DAY: i64 = 86_400;

impl Time {
    /// Creates a time from milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time after this duration, at most the largest time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.plus_millis(millis)
    }

    /// Returns the duration since an earlier time, or zero if that time is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Returns the time after this many milliseconds, at most the largest time.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// Returns year, month and day of the proleptic Gregorian calendar, from days since the epoch.
/// Source: Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
#[allow(
    clippy::arithmetic_side_effects,
    reason = "|days| is at most i64::MAX / 86,400,000, so no step can overflow"
)]
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// RFC 3339 in UTC, rounded up to the second, so that the shown time is never too early. The
/// alternate form (`{:#}`) is for a clock that starts at zero, as in a simulation: `90 s`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = i64::from(self.0.rem_euclid(1_000) > 0);
        let seconds = self.0.div_euclid(1_000).saturating_add(up);
        if f.alternate() {
            return write!(f, "{seconds} s");
        }
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
        let of_day = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (
            of_day.div_euclid(3_600),
            of_day.rem_euclid(3_600).div_euclid(60),
            of_day.rem_euclid(60),
        );
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shown_as_rfc_3339() {
        let shown = |ms| Time::from_millis(ms).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(shown(1_795_237_151_001), "2026-11-21T04:59:12Z");
        assert_eq!(shown(-1_000), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn alternate_form_shows_seconds() {
        assert_eq!(format!("{:#}", Time::from_millis(89_001)), "90 s");
    }

    #[test]
    fn smallest_and_largest_times_are_shown() {
        assert!(Time::from_millis(i64::MAX).to_string().ends_with('Z'));
        assert!(Time::from_millis(i64::MIN).to_string().ends_with('Z'));
    }
}
