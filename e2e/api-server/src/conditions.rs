//! Conditions that the server itself writes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::fields_mut;
use crate::time::render_time;

/// Sets a condition. Its time changes only with its status.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value, now: Timestamp) {
    let status = fields_mut(object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    condition["lastTransitionTime"] = render_time(now).into();
    let old = conditions
        .iter_mut()
        .find(|old| old["type"] == condition["type"]);
    match old {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}
