//! Values that belong to the whole job in Trellis, and to each task group in other systems.

use serde_json::json;

use crate::field_log::FieldLog;
use crate::pod::ValueWithPath;

/// Returns the job's own value, or else the first value of its groups, and notes each different
/// value. The reasons are for a job with a value of its own, and for a job without one.
pub(crate) fn job_value(
    own: Option<String>,
    of_groups: impl Iterator<Item = Option<ValueWithPath<String>>>,
    log: &FieldLog,
    [differs, is_of_group]: [&str; 2],
    instead: &str,
) -> Option<String> {
    let Some(value) = own else {
        return first_value(of_groups.collect(), log, is_of_group, instead);
    };
    let path = String::new();
    let own = Some(ValueWithPath { value, path });
    let of_groups = of_groups.filter(Option::is_some);
    first_value(
        std::iter::once(own).chain(of_groups).collect(),
        log,
        differs,
        instead,
    )
}

/// Returns the first value for a field of the whole job, and notes each different value.
pub(crate) fn first_value(
    group_values: Vec<Option<ValueWithPath<String>>>,
    log: &FieldLog,
    reason: &str,
    instead: &str,
) -> Option<String> {
    let mut values = group_values.iter().flatten();
    let first = values.next()?;
    for other in values.filter(|other| other.value != first.value) {
        log.note(&other.path, Some(&json!(other.value)), reason, instead);
    }
    // A note tells that groups without a value get the value of the job.
    if !first.path.is_empty() && group_values.iter().any(Option::is_none) {
        log.note(&first.path, Some(&json!(first.value)), reason, instead);
    }
    Some(first.value.clone())
}
