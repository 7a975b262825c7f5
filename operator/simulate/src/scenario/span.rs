//! Stretches of time, as people write them: `300s`, `1h30m`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

/// The format, for error messages.
const WANTED: &str = "a time such as 90s, 500ms, 1h30m or 2d";

/// A stretch of time, to the millisecond: numbers with their units, `ms`, `s`,
/// `m`, `h` or `d`. A number alone is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text)
            .map(Self)
            .ok_or_else(|| format!("must be {WANTED}, not {text:?}"))
    }
}

fn read(text: &str) -> Option<Duration> {
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
        sum = sum.checked_add(times(number, millis)?)?;
        rest = after;
    }
    Some(sum)
}

/// The product in milliseconds, rounded to one.
fn times(number: &str, millis: u32) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    let millis = (number * f64::from(millis)).round();
    // Longer than the end of time.
    (millis < 9e15).then(|| Duration::from_millis(millis as u64))
}

/// As it is written shortest in one unit.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis.checked_rem(1_000) {
            Some(0) => write!(f, "{}s", self.0.as_secs()),
            _ => write!(f, "{millis}ms"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Span, E> {
        let span = times(&seconds.to_string(), 1_000).map(Span);
        span.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(seconds), &self))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Span, E> {
        let seconds = u64::try_from(seconds)
            .map_err(|_| E::invalid_value(Unexpected::Signed(seconds), &self))?;
        self.visit_u64(seconds)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Span, E> {
        let span = times(&seconds.to_string(), 1_000).filter(|_| seconds >= 0.0);
        span.map(Span)
            .ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        text.parse::<Span>().ok().map(|span| span.0.as_millis())
    }

    #[test]
    fn times_have_units() {
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
    fn what_is_no_time_is_refused() {
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
        let of = |json: &str| serde_json::from_str::<Span>(json);
        assert_eq!(of("12.5").unwrap().0.as_millis(), 12_500);
        assert_eq!(of("60").unwrap().to_string(), "60s");
        assert_eq!(of("\"1500ms\"").unwrap().to_string(), "1500ms");
        for wrong in ["-1", "-0.5", "true", "[]", "1e300"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
