//! Pods that have ended. Their record outlives the pod objects.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods of one attempt that have ended and need not run again. Losing these pods or their nodes has
/// no effect on the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FinishedPods {
    /// Number of the attempt.
    pub attempt: i64,
    /// Task groups with such pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<FinishedGroup>,
}

/// Pods of one task group that have ended.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FinishedGroup {
    /// Name of the task group.
    pub name: String,
    /// Indexes of pods that succeeded, such as `0-3,7`, as in `completedIndexes` of a batch/v1 Job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Indexes of pods whose failure is ignored, in the same form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed_indexes: String,
}

/// Formats indexes as ranges, `0-3,7`.
///
/// ```
/// use trellis_api::job::{format_ranges, parse_ranges};
/// let some = [0, 1, 2, 3, 7].into();
/// assert_eq!(format_ranges(&some), "0-3,7");
/// assert_eq!(parse_ranges("0-3,7"), some);
/// assert_eq!(format_ranges(&[].into()), "");
/// ```
#[must_use]
pub fn format_ranges(indexes: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*index) => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

/// Parses ranges into indexes. Invalid ranges are skipped, and each range is cut at the largest
/// index that a group can have.
#[must_use]
pub fn parse_ranges(ranges: &str) -> BTreeSet<u32> {
    let of = |range: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let last: u32 = last.parse().ok()?;
        Some(first.parse().ok()?..=last.min(MAX_INDEX))
    };
    ranges.split(',').filter_map(of).flatten().collect()
}

/// Largest index of a pod in its group.
const MAX_INDEX: u32 = 4095;
