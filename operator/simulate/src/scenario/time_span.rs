//! Durations as users write them: `300s`, `1h30m`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

/// The format, for error messages.
const EXPECTED_FORMAT: &str = "a time such as 90s, 500ms, 1h30m or 2d";

/// A duration in milliseconds, written as numbers with the units `ms`, `s`, `m`, `h` or `d`. A
/// number without a unit is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

impl std::str::FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
            .map(Self)
            .ok_or_else(|| format!("must be {EXPECTED_FORMAT}, not {text:?}"))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() || text.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at_checked(end.unwrap_or(after.len()))?;
        let millis: u32 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(multiply(number, millis)?)?;
        rest = after;
    }
    Some(sum)
}

/// Multiplies a number by its unit, and rounds to a millisecond.
fn multiply(number: &str, millis: u32) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    let millis = (number * f64::from(millis)).round();
    // A longer duration does not fit into the simulated time.
    (millis < 9e15).then(|| Duration::from_millis(millis as u64))
}

/// Formats the duration in the one unit that gives the shortest text.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis.checked_rem(1_000) {
            Some(0) => write!(f, "{}s", self.0.as_secs()),
            _ => write!(f, "{millis}ms"),
        }
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct TimeSpanVisitor;

impl Visitor<'_> for TimeSpanVisitor {
    type Value = TimeSpan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED_FORMAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TimeSpan, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<TimeSpan, E> {
        let span = multiply(&seconds.to_string(), 1_000).map(TimeSpan);
        span.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(seconds), &self))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<TimeSpan, E> {
        let seconds = u64::try_from(seconds)
            .map_err(|_| E::invalid_value(Unexpected::Signed(seconds), &self))?;
        self.visit_u64(seconds)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<TimeSpan, E> {
        let span = multiply(&seconds.to_string(), 1_000).filter(|_| seconds >= 0.0);
        span.map(TimeSpan)
            .ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeSpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        text.parse::<TimeSpan>().ok().map(|span| span.0.as_millis())
    }

    #[test]
    fn time_span_needs_units() {
        let cases = [
            ("0s", 0),
            ("300s", 300_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("2d", 172_800_000),
        ];
        for (text, expected) in cases {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_time_span_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 s",
            "5y",
            "1.2.3s",
            "9e99s",
            "99999999999999d",
            "nans",
        ] {
            assert_eq!(millis(text), None, "{text:?}");
        }
        let parse = |json: &str| serde_json::from_str::<TimeSpan>(json);
        assert_eq!(parse("12.5").unwrap().0.as_millis(), 12_500);
        assert_eq!(parse("60").unwrap().to_string(), "60s");
        assert_eq!(parse("\"1500ms\"").unwrap().to_string(), "1500ms");
        for wrong in ["-1", "-0.5", "true", "[]", "1e300"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
