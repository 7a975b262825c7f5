//! Ages as kubectl prints them, such as `5m30s`.

use jiff::Timestamp;

/// Returns the time since `at`, or zero if `at` is in the future.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    format_span(now.duration_since(at).as_secs())
}

/// Returns the time until `at`, or zero if `at` is in the past.
pub(super) fn until(at: Timestamp, now: Timestamp) -> String {
    format_span(at.duration_since(now).as_secs())
}

/// Formats a time span in its two largest relevant units, as kubectl does.
fn format_span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let of = |unit: i64| seconds.checked_div(unit).unwrap_or(0);
    let rest = |unit: i64, small: i64| {
        let rest = seconds.checked_rem(unit).unwrap_or(0);
        rest.checked_div(small).unwrap_or(0)
    };
    let both = |large: (i64, &str), small: (i64, &str)| match rest(large.0, small.0) {
        0 => format!("{}{}", of(large.0), large.1),
        rest => format!("{}{}{rest}{}", of(large.0), large.1, small.1),
    };
    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 86_400;
    const YEAR: i64 = 31_536_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => both((MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", of(MINUTE)),
        10_800..28_800 => both((HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", of(HOUR)),
        172_800..691_200 => both((DAY, "d"), (HOUR, "h")),
        691_200..63_072_000 => format!("{}d", of(DAY)),
        _ => both((YEAR, "y"), (DAY, "d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        for (seconds, shown) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (3_700, "61m"),
            (11_000, "3h3m"),
            (36_000, "10h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (70_000_000, "2y80d"),
        ] {
            assert_eq!(format_span(seconds), shown, "{seconds}");
        }
        let at = Timestamp::from_second(1_000).unwrap();
        let now = Timestamp::from_second(1_090).unwrap();
        assert_eq!((ago(at, now), until(at, now)), ("90s".into(), "0s".into()));
    }
}
