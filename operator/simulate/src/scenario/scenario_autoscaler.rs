//! The simulated autoscaler of one flavor.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

use super::TimeSpan;
use crate::runner::AutoscalerSettings;

/// How the simulated autoscaler adds and removes the nodes of one flavor.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioAutoscaler {
    /// The time from the purchase of a node until it is ready. Absent: 5 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrive_after: Option<TimeRange>,
    /// How long a node must be idle before it is removed. Absent: 10 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_idle_after: Option<TimeSpan>,
    /// The most nodes that it has at one time, including coming ones. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock: Option<u32>,
}

impl ScenarioAutoscaler {
    /// Returns the settings, with the defaults for absent fields.
    #[must_use]
    pub fn to_settings(&self) -> AutoscalerSettings {
        let defaults = AutoscalerSettings::default();
        let arrive_after = self.arrive_after;
        AutoscalerSettings {
            arrive_after: arrive_after.map_or(defaults.arrive_after, |range| {
                (range.shortest.0, range.longest.0)
            }),
            remove_idle_after: self
                .remove_idle_after
                .map_or(defaults.remove_idle_after, |span| span.0),
            stock: self.stock,
        }
    }
}

/// A time, or a range of times, written as `5m` or `3m..8m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The shortest time.
    pub shortest: TimeSpan,
    /// The longest time.
    pub longest: TimeSpan,
}

impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (shortest, longest) = text.split_once("..").unwrap_or((text, text));
        let (Ok(shortest), Ok(longest)) = (shortest.parse(), longest.parse()) else {
            return Err(format!(
                "must be a time such as 5m, or a range such as 3m..8m, not {text:?}"
            ));
        };
        if shortest > longest {
            return Err(format!(
                "must begin with the shorter time: write {longest}..{shortest}"
            ));
        }
        Ok(Self { shortest, longest })
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shortest.fmt(f)?;
        match self.shortest == self.longest {
            true => Ok(()),
            false => write!(f, "..{}", self.longest),
        }
    }
}

impl Serialize for TimeRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A number is one time in seconds, as in [`TimeSpan`].
#[derive(Deserialize)]
#[serde(untagged)]
enum RangeOrSeconds {
    Seconds(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for TimeRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match RangeOrSeconds::deserialize(deserializer) {
            Ok(RangeOrSeconds::Seconds(seconds)) => format!("{seconds}s"),
            Ok(RangeOrSeconds::Text(text)) => text,
            Err(_) => String::new(),
        };
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_one_time_or_two() {
        let parse = |json: &str| serde_json::from_str::<TimeRange>(json);
        for (json, text) in [
            ("\"5m\"", "300s"),
            ("300", "300s"),
            ("\"0s\"", "0s"),
            ("\"3m..8m\"", "180s..480s"),
        ] {
            assert_eq!(parse(json).unwrap().to_string(), text);
        }
        for wrong in ["\"8m..3m\"", "\"5\"", "\"3m..\"", "-1", "true", "[]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn absent_fields_have_defaults() {
        let settings = ScenarioAutoscaler::default().to_settings();
        assert_eq!(settings, AutoscalerSettings::default());
    }
}
