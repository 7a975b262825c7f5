//! Stand-ins for unreadable fields. They let decoding go on, so that all problems of an object are
//! found.

use serde_json::{Value, json};

/// Removes the field at a path such as `spec.taskGroups[0].replcas`. Returns false if it does not
/// exist, or is an item of a list: removing it would renumber the later items.
pub(super) fn remove_field(value: &mut Value, path: &str) -> bool {
    change_field(value, path, None)
}

/// Returns values of every type, for a required field.
pub(super) fn candidates() -> [Value; 5] {
    [json!("1"), json!(1), json!(false), json!([]), json!({})]
}

/// Sets the field at a path, whether it exists or not. Returns false if its parent does not exist.
pub(super) fn set_field(value: &mut Value, path: &str, to: Value) -> bool {
    change_field(value, path, Some(to))
}

fn change_field(value: &mut Value, path: &str, to: Option<Value>) -> bool {
    let path = path.strip_prefix('.').unwrap_or(path);
    match value {
        Value::Object(map) => {
            // Keys may contain dots: the longest matching key wins.
            let fits = |key: &&String| {
                let rest = path.strip_prefix(key.as_str());
                rest.is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            let inner = map.keys().filter(fits).max_by_key(|k| k.len()).cloned();
            match (inner.filter(|_| !map.contains_key(path)), to) {
                (Some(key), to) => {
                    let rest = path.strip_prefix(key.as_str()).unwrap_or_default();
                    map.get_mut(&key)
                        .is_some_and(|value| change_field(value, rest, to))
                }
                (None, None) => map.remove(path).is_some(),
                (None, Some(to)) => {
                    map.insert(path.to_owned(), to);
                    true
                }
            }
        }
        Value::Array(items) => {
            let index = path.strip_prefix('[').and_then(|p| p.split_once(']'));
            let Some((index, rest)) = index else {
                return false;
            };
            let item = index.parse::<usize>().ok().and_then(|i| items.get_mut(i));
            match (item, rest, to) {
                (Some(item), "", Some(to)) => {
                    *item = to;
                    true
                }
                (Some(_), "", None) | (None, ..) => false,
                (Some(item), rest, to) => change_field(item, rest, to),
            }
        }
        _ => false,
    }
}
