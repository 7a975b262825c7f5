//! Decodes a written template into Kubernetes' type without loss.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

use crate::Violation;
use crate::document::serde_messages;

/// Maps from resources to quantities.
const QUANTITY_MAPS: [&str; 3] = ["requests", "limits", "overhead"];
/// Fields that contain a quantity.
const QUANTITY_FIELDS: [&str; 2] = ["sizeLimit", "divisor"];

pub(super) fn decode(written: &Map<String, Value>) -> Result<PodTemplateSpec, Vec<Violation>> {
    let mut written = Value::Object(written.clone());
    quote_quantities(&mut written);
    let template: PodTemplateSpec =
        serde_path_to_error::deserialize(&written).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { "" } else { path.as_str() };
            let field_error = serde_messages::explain_serde_error(&error.inner().to_string(), path);
            vec![Violation {
                path: field_error.field,
                message: field_error.message,
            }]
        })?;
    // Kubernetes' types drop unknown fields. The template is therefore encoded again, and fields
    // that are then missing were unknown.
    let read = serde_json::to_value(&template).unwrap_or_default();
    let mut unknown = Vec::new();
    collect_unknown(&written, &read, "", &mut unknown);
    if unknown.is_empty() {
        Ok(template)
    } else {
        Err(unknown)
    }
}

/// Quotes numbers in quantity fields: Kubernetes accepts `cpu: 1`, but its Rust type does not.
fn quote_quantities(value: &mut Value) {
    let text = |value: &mut Value| {
        if let Value::Number(number) = value {
            *value = Value::String(number.to_string());
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if QUANTITY_FIELDS.contains(&key.as_str()) {
                    text(value);
                } else if QUANTITY_MAPS.contains(&key.as_str())
                    && let Value::Object(amounts) = value
                {
                    amounts.values_mut().for_each(text);
                } else {
                    quote_quantities(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(quote_quantities),
        _ => {}
    }
}

fn collect_unknown(written: &Value, read: &Value, path: &str, unknown: &mut Vec<Violation>) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (key, value) in written {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match read.get(key) {
                    Some(read) => collect_unknown(value, read, &path, unknown),
                    // A null is the same as an absent field.
                    None if value.is_null() => {}
                    None => unknown.push(Violation {
                        path,
                        message: serde_messages::UNKNOWN_FIELD.to_owned(),
                    }),
                }
            }
        }
        (Value::Array(written), Value::Array(read)) => {
            for (index, (written, read)) in written.iter().zip(read).enumerate() {
                collect_unknown(written, read, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}
