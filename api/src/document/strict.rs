//! Fields that nobody reads. Types of Kubernetes take what they do not know
//! and drop it, where the API server refuses it: what was read is written
//! again, and what is then missing was never known.

use serde_json::Value;

use super::tree::{At, Tree};
use super::words;

/// A field that is not known, and its place.
pub(super) struct Unknown {
    pub(super) path: String,
    pub(super) at: At,
    pub(super) message: &'static str,
}

/// What `written` says that `read` does not.
pub(super) fn unknown(written: &Tree, read: &Value) -> Vec<Unknown> {
    let mut found = Vec::new();
    compare(written, read, "", &mut found);
    found
}

fn compare(written: &Tree, read: &Value, path: &str, found: &mut Vec<Unknown>) {
    match read {
        // A struct takes a list of its fields' values, and the API server does not.
        Value::Object(_) if written.is_list() => found.push(Unknown {
            path: path.to_owned(),
            at: written.at,
            message: words::NO_LIST,
        }),
        Value::Object(map) => {
            for (key, at, value) in written.entries() {
                let path = if path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{path}.{key}")
                };
                match map.get(key) {
                    Some(read) => compare(value, read, &path, found),
                    // Nothing is the same as absent.
                    None if value.is_nothing() => {}
                    None => {
                        let message = match path.rsplit('.').nth(1) {
                            Some(around) if around.ends_with("elector") => words::NO_LABEL,
                            _ => words::UNKNOWN_FIELD,
                        };
                        found.push(Unknown { path, at, message });
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, (value, read)) in written.list().iter().zip(items).enumerate() {
                compare(value, read, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
