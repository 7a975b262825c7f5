//! JSON merge patches (RFC 7386): only the differences, with null for fields that are gone.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the patch that turns `before` into `after`.
///
/// ```
/// use serde_json::json;
/// let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
/// let after = json!({"a": 1, "b": {"c": 4}, "e": [1, 2]});
/// let patch = trellis_gang::patch::diff(&before, &after);
/// assert_eq!(patch, json!({"b": {"c": 4, "d": null}, "e": [1, 2]}));
/// ```
#[must_use]
pub fn diff<T: Serialize>(before: &T, after: &T) -> Value {
    // Types of the API always serialize; if one did not, nothing would be patched.
    let before = serde_json::to_value(before).unwrap_or_default();
    let after = serde_json::to_value(after).unwrap_or_default();
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            Value::Object(diff_objects(&before, after))
        }
        (_, after) => after,
    }
}

fn diff_objects(before: &Map<String, Value>, after: Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for key in before.keys().filter(|k| !after.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match (before.get(&key), value) {
            (Some(old), new) if *old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(key, Value::Object(diff_objects(old, new)));
            }
            (_, new) => {
                patch.insert(key, new);
            }
        }
    }
    patch
}
