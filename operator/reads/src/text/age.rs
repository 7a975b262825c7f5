//! Formats durations as kubectl does.
//! The source is `duration.HumanDuration` of k8s.io/apimachinery. Small numbers of a unit are
//! followed by the next smaller unit, such as `5h30m`.

use k8s_openapi::jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats the time since then.
#[must_use]
pub fn format_age(since: Timestamp, now: Timestamp) -> String {
    format_span(now.as_second().saturating_sub(since.as_second()))
}

/// Formats the time until then; `now` if then is past.
#[must_use]
pub fn format_until(then: Timestamp, now: Timestamp) -> String {
    match then.as_second().saturating_sub(now.as_second()) {
        over if over <= 0 => "now".to_owned(),
        seconds => format_span(seconds),
    }
}

fn format_span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    // Parameters: larger unit, its name, smaller unit, its name.
    let two = |large: i64, name: &str, small: i64, small_name: &str| {
        let rest = seconds.checked_rem(large).unwrap_or(0);
        let (many, few) = (whole_units(seconds, large), whole_units(rest, small));
        match few {
            0 => format!("{many}{name}"),
            few => format!("{many}{name}{few}{small_name}"),
        }
    };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", whole_units(s, MINUTE)),
        s if s < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", whole_units(s, HOUR)),
        s if s < 8 * DAY => two(DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", whole_units(s, DAY)),
        s if s < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        s => format!("{}y", whole_units(s, YEAR)),
    }
}

fn whole_units(amount: i64, size: i64) -> i64 {
    amount.checked_div(size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_match_kubectl() {
        for (seconds, written) in [
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
        ] {
            assert_eq!(format_span(seconds), written);
        }
    }

    #[test]
    fn past_time_is_now() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(format_until(at(10), at(10)), "now");
        assert_eq!(format_until(at(70), at(10)), "60s");
        assert_eq!(format_age(at(10), at(15)), "5s");
        // The local clock is behind.
        assert_eq!(format_age(at(20), at(15)), "0s");
    }
}
