//! The walk over the whole tree of a pod, along the list.

use serde_json::Value;

use super::field_rules::{FieldRule, FieldRules};
use super::findings::UnlistedField;

/// Checks that every field of `value` is listed and has an allowed value.
pub(super) fn collect_unlisted(
    value: &Value,
    fields: FieldRules,
    path: &str,
    found: &mut Vec<UnlistedField>,
) {
    let Value::Object(given) = value else {
        return;
    };
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let known = fields.iter().find(|(name, _)| name == key);
        match known.map(|(_, is)| is) {
            None => {
                let remedy = "remove it: nobody has said yet what it lets a pod do".to_owned();
                found.push(UnlistedField { path, remedy });
            }
            Some(FieldRule::Harmless | FieldRule::Checked) => {}
            Some(FieldRule::Nested(fields)) => collect_from_items(value, fields, &path, found),
            Some(FieldRule::Only(wanted)) if value == *wanted => {}
            Some(FieldRule::Only(wanted)) => {
                let remedy = format!("it must be {wanted:?}");
                found.push(UnlistedField { path, remedy });
            }
            Some(FieldRule::Never(remedy)) => {
                let remedy = (*remedy).to_owned();
                found.push(UnlistedField { path, remedy });
            }
        }
    }
}

/// Walks over each item of a list, or over the value itself.
fn collect_from_items(
    value: &Value,
    fields: FieldRules,
    path: &str,
    found: &mut Vec<UnlistedField>,
) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect_unlisted(item, fields, &format!("{path}[{at}]"), found);
            }
        }
        one => collect_unlisted(one, fields, path, found),
    }
}

#[cfg(test)]
mod tests;
