//! What a QuotaPolicy limits.

use std::borrow::Cow;
use std::fmt;

use garde::Validate;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Quantity, rules};

/// Limits, each for itself: a job must have room in all of them.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SOME_LIMIT.cel())]
pub struct QuotaLimits {
    /// What the jobs may hold together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), dive, custom(rules::some_limit(self)))]
    pub resources: Vec<ResourceLimit>,
    /// Jobs that hold a place at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.cel())]
    pub running_jobs: Option<i64>,
    /// Jobs that wait at a time: one more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.cel())]
    pub queued_jobs: Option<i64>,
    /// Pods of one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.cel())]
    pub pods_per_job: Option<i64>,
    /// GPUs of one job, over all of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.cel())]
    pub gpus_per_job: Option<i64>,
    /// Seconds that one job may run (`deadlines.activeSeconds`, which it then must have).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.cel())]
    pub runtime_seconds_per_job: Option<i64>,
    /// GPU-hours that the jobs may burn in a window of time: what they hold counts, from
    /// the moment when they have their place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub gpu_hours: Option<GpuHours>,
}

/// How much of one resource the jobs may hold together: `max`, or `percentOfQueue`.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ONE_BOUND.cel())]
pub struct ResourceLimit {
    /// Name of the resource.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::resource_name), custom(rules::one_bound(self)))]
    #[x_kube(validation = rules::RESOURCE_NAME.cel())]
    pub resource: String,
    /// Name of the flavor in which it is held. Absent: whichever, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::flavor_name)))]
    #[x_kube(validation = rules::FLAVOR_NAME.cel())]
    pub flavor: Option<String>,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.cel())]
    pub max: Option<Quantity>,
    /// Percentage of the nominal quota of the resource, rounded down: of `subject.queueName` and all queues
    /// below it, else of the job's own queue. A resource without quota there is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::percent)))]
    #[x_kube(validation = rules::PERCENT.cel())]
    pub percent_of_queue: Option<i64>,
}

/// GPU-hours in a window.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct GpuHours {
    /// How many: once they are burnt, no job starts until the window has moved on. What
    /// runs goes on.
    #[garde(custom(rules::gpu_hours))]
    #[x_kube(validation = rules::GPU_HOURS.cel())]
    pub hours: i64,
    /// The window, which ends now: hours or days, such as 12h or 30d, at most 366d.
    pub per: Window,
}

/// Longest window: a leap year.
const LONGEST: i64 = 366 * 24;

/// A length of time, in whole hours: written in hours or in days, such as `12h` or `30d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    hours: i64,
}

impl Window {
    /// From its text.
    ///
    /// # Errors
    /// If it is no number of hours or days, or none from an hour to 366 days.
    ///
    /// ```
    /// use trellis_api::quota_policy::Window;
    /// assert_eq!(Window::parse("30d").map(Window::hours), Ok(720));
    /// assert!(Window::parse("0h").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SAYS: &str = "must be a number of hours or days, such as 12h or 30d, at most 366d";
        let (number, unit) = match text.strip_suffix('d') {
            Some(number) => (number, 24),
            None => (text.strip_suffix('h').ok_or(SAYS)?, 1),
        };
        let is_plain = number.len() <= 4
            && !number.starts_with('0')
            && number.bytes().all(|b| b.is_ascii_digit());
        let number: i64 = number.parse().ok().filter(|_| is_plain).ok_or(SAYS)?;
        let hours = number.checked_mul(unit).ok_or(SAYS)?;
        if (1..=LONGEST).contains(&hours) {
            Ok(Self { hours })
        } else {
            Err(SAYS)
        }
    }

    /// Its length, in hours.
    #[must_use]
    pub const fn hours(self) -> i64 {
        self.hours
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hours.checked_rem(24) {
            Some(0) => write!(f, "{}d", self.hours.checked_div(24).unwrap_or_default()),
            _ => write!(f, "{}h", self.hours),
        }
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for Window {
    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // 366 days are 8784 hours.
        json_schema!({
            "type": "string",
            "pattern": "^(([1-9][0-9]{0,2}|[1-7][0-9]{3}|8[0-6][0-9]{2}|87[0-7][0-9]|878[0-4])h|([1-9][0-9]?|[12][0-9]{2}|3[0-5][0-9]|36[0-6])d)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_hours_or_days() {
        for (text, hours) in [("1h", 1), ("8784h", 8784), ("1d", 24), ("366d", 8784)] {
            assert_eq!(Window::parse(text).map(Window::hours), Ok(hours), "{text}");
        }
        for text in [
            "", "h", "d", "1", "0h", "0d", "01h", "+1h", "-1h", "1.5h", "1H", "1w", " 1h", "1h ",
            "8785h", "367d", "9999d", "99999h",
        ] {
            assert!(Window::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn some_hours_are_limited_and_none_are_said_otherwise() {
        let of = |hours: i64| {
            let per = Window::parse("30d").unwrap();
            GpuHours { hours, per }.validate()
        };
        assert!(of(1).is_ok() && of(1_000_000_000).is_ok());
        for hours in [0, -1, 1_000_000_001] {
            let said = of(hours).unwrap_err().to_string();
            assert!(said.contains("must be 1 to 1000000000"), "{said}");
            assert!(said.contains("gpusPerJob"), "{said}");
        }
    }

    #[test]
    fn a_window_is_written_as_it_is_read() {
        for text in ["1h", "12h", "30d", "366d"] {
            assert_eq!(Window::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Window::parse("48h").unwrap().to_string(), "2d");
    }
}
