//! Structural schemas of custom kinds.

mod pruning;
mod validation;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// A structural schema of a CustomResourceDefinition. Its CEL rules are not evaluated.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    kind: Option<String>,
    is_nullable: bool,
    properties: BTreeMap<String, Self>,
    /// The schema of further properties.
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
    preserves_unknown_fields: bool,
    is_embedded: bool,
    is_int_or_string: bool,
    required: Vec<String>,
    allowed: Vec<Value>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    lengths: Bounds,
    item_counts: Bounds,
    property_counts: Bounds,
    pattern: Option<Regex>,
    format: Option<String>,
    default: Option<Value>,
    list_keys: Vec<String>,
    is_set: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    least: Option<u64>,
    most: Option<u64>,
}

impl Schema {
    /// Parses the schema of a whole object. Its type and metadata are not part of it.
    pub(crate) fn parse_root(value: &Value) -> Result<Self, String> {
        let mut schema = Self::parse(value)?;
        for name in ["apiVersion", "kind", "metadata"] {
            schema.properties.remove(name);
        }
        Ok(schema)
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let is_true = |name: &str| value[name] == true;
        let bounds = |least: &str, most: &str| Bounds {
            least: value[least].as_u64(),
            most: value[most].as_u64(),
        };
        let texts = |name: &str| {
            let items = value[name].as_array().into_iter().flatten();
            items
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        let sub = |name: &str| match &value[name] {
            Value::Object(_) => Self::parse(&value[name]).map(|schema| Some(Box::new(schema))),
            // `additionalProperties: true` allows everything.
            Value::Bool(true) => Ok(Some(Box::new(Self {
                preserves_unknown_fields: true,
                ..Self::default()
            }))),
            _ => Ok(None),
        };
        let properties = value["properties"].as_object().into_iter().flatten();
        let properties: Result<_, String> = properties
            .map(|(name, schema)| Ok((name.clone(), Self::parse(schema)?)))
            .collect();
        let pattern = text("pattern").map(|pattern| Regex::new(&pattern));
        Ok(Self {
            kind: text("type"),
            is_nullable: is_true("nullable"),
            properties: properties?,
            additional: sub("additionalProperties")?,
            items: sub("items")?,
            preserves_unknown_fields: is_true("x-kubernetes-preserve-unknown-fields"),
            is_embedded: is_true("x-kubernetes-embedded-resource"),
            is_int_or_string: is_true("x-kubernetes-int-or-string"),
            required: texts("required"),
            allowed: value["enum"].as_array().cloned().unwrap_or_default(),
            minimum: value["minimum"]
                .as_f64()
                .map(|n| (n, is_true("exclusiveMinimum"))),
            maximum: value["maximum"]
                .as_f64()
                .map(|n| (n, is_true("exclusiveMaximum"))),
            lengths: bounds("minLength", "maxLength"),
            item_counts: bounds("minItems", "maxItems"),
            property_counts: bounds("minProperties", "maxProperties"),
            pattern: pattern.transpose().map_err(|error| error.to_string())?,
            format: text("format"),
            default: value.get("default").cloned(),
            list_keys: match value["x-kubernetes-list-type"].as_str() {
                Some("map") => texts("x-kubernetes-list-map-keys"),
                _ => Vec::new(),
            },
            is_set: value["x-kubernetes-list-type"] == "set",
        })
    }
}

#[cfg(test)]
mod fixtures {
    use serde_json::{Value, json};

    use super::Schema;

    /// Returns the schema of an object whose spec has this schema.
    pub(super) fn schema(value: &Value) -> Schema {
        let spec = json!({"type": "object", "properties": {"spec": value}});
        Schema::parse_root(&spec).expect("a valid schema")
    }
}
