//! Managed fields: who wrote an object last, by manager and subresource.
//!
//! Unlike a real server, this one does not track the fields themselves: `fieldsV1` is empty.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::{metadata_mut, take_field};
use crate::time::render_time;

/// Returns the managed fields after a write by a manager.
pub(crate) fn record_write(
    old: Option<&Value>,
    new: &mut Value,
    kind: &Kind,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    let before = old.and_then(|old| old["metadata"]["managedFields"].as_array());
    let mut entries = before.cloned().unwrap_or_default();
    let manager = if manager.is_empty() {
        "unknown"
    } else {
        manager
    };
    let is_same = |entry: &Value| {
        entry["manager"] == manager
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    entries.retain(|entry| !is_same(entry));
    let mut entry = json!({
        "manager": manager, "operation": "Update", "apiVersion": kind.api_version(),
        "time": render_time(now), "fieldsType": "FieldsV1", "fieldsV1": {},
    });
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entries.push(entry);
    metadata_mut(new).insert("managedFields".to_owned(), entries.into());
}

/// Puts the managed fields of the old object into the new one. Those that a client sends do not
/// count.
pub(crate) fn carry_over(old: Option<&Value>, new: &mut Value) {
    let before = old
        .and_then(|old| old["metadata"].get("managedFields"))
        .cloned();
    let metadata = metadata_mut(new);
    match before {
        Some(before) => drop(metadata.insert("managedFields".to_owned(), before)),
        None => drop(take_field(metadata, "managedFields")),
    }
}

/// Returns true if two versions differ in more than their managed fields and revisions.
pub(crate) fn differ(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return one != other;
    };
    one.len() != other.len()
        || one.iter().any(|(name, value)| match other.get(name) {
            None => true,
            Some(other) if name == "metadata" => metadata_differs(value, other),
            Some(other) => value != other,
        })
}

fn metadata_differs(one: &Value, other: &Value) -> bool {
    let empty = Map::new();
    let fields = |value: &'_ Value| -> Vec<(String, Value)> {
        let fields = value.as_object().unwrap_or(&empty).iter();
        let ignored = ["managedFields", "resourceVersion"];
        let mut fields: Vec<(String, Value)> = fields
            .filter(|(name, _)| !ignored.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    };
    fields(one) != fields(other)
}
