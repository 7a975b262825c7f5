//! Finds unknown fields. Kubernetes' types drop unknown fields, but the API server refuses them.
//! The decoded object is therefore encoded again; fields that are then missing were unknown.

use serde_json::Value;

use super::serde_messages;
use super::yaml_tree::{YamlPosition, YamlTree};

/// An unknown field, and its position.
pub(super) struct UnknownField {
    pub(super) path: String,
    pub(super) position: YamlPosition,
    pub(super) message: &'static str,
}

/// Returns the fields of `written` that are missing in `read`.
pub(super) fn find_unknown_fields(written: &YamlTree, read: &Value) -> Vec<UnknownField> {
    let mut found = Vec::new();
    collect_unknown(written, read, "", &mut found);
    found
}

fn collect_unknown(written: &YamlTree, read: &Value, path: &str, found: &mut Vec<UnknownField>) {
    match read {
        // serde accepts a list of a struct's field values, but the API server does not.
        Value::Object(_) if written.is_list() => found.push(UnknownField {
            path: path.to_owned(),
            position: written.position,
            message: serde_messages::LIST_FOR_MAPPING,
        }),
        Value::Object(map) => {
            for (key, at, value) in written.entries() {
                let path = if path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{path}.{key}")
                };
                match map.get(key) {
                    Some(read) => collect_unknown(value, read, &path, found),
                    // An empty value is the same as an absent field.
                    None if value.is_blank() => {}
                    None => {
                        let message = match path.rsplit('.').nth(1) {
                            Some(around) if around.ends_with("elector") => {
                                serde_messages::LABEL_IN_SELECTOR
                            }
                            _ => serde_messages::UNKNOWN_FIELD,
                        };
                        found.push(UnknownField {
                            path,
                            position: at,
                            message,
                        });
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, (value, read)) in written.items().iter().zip(items).enumerate() {
                collect_unknown(value, read, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
