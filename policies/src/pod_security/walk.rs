//! The walk over the whole tree of a pod, along the list.

use serde_json::Value;

use super::found::Unlisted;
use super::list::{Fields, Is};

/// Checks that every field of `value` is listed and has an allowed value.
pub(super) fn walk(value: &Value, fields: Fields, path: &str, found: &mut Vec<Unlisted>) {
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
                found.push(Unlisted { path, remedy });
            }
            Some(Is::Free | Is::Judged) => {}
            Some(Is::Has(fields)) => each(value, fields, &path, found),
            Some(Is::Only(wanted)) if value == *wanted => {}
            Some(Is::Only(wanted)) => {
                let remedy = format!("it must be {wanted:?}");
                found.push(Unlisted { path, remedy });
            }
            Some(Is::Never(remedy)) => {
                let remedy = (*remedy).to_owned();
                found.push(Unlisted { path, remedy });
            }
        }
    }
}

/// Walks over each item of a list, or over the value itself.
fn each(value: &Value, fields: Fields, path: &str, found: &mut Vec<Unlisted>) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                walk(item, fields, &format!("{path}[{at}]"), found);
            }
        }
        one => walk(one, fields, path, found),
    }
}

#[cfg(test)]
mod tests;
