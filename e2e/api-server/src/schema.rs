//! Structural schemas of custom kinds: pruning, defaults and validation.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::status::Cause;

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

    /// Removes the fields of an object that the schema does not know.
    pub(crate) fn prune(&self, object: &mut Value) {
        self.prune_value(object, true);
    }

    fn prune_value(&self, value: &mut Value, has_type: bool) {
        match value {
            Value::Array(values) => {
                for value in values {
                    match &self.items {
                        Some(items) => items.prune_value(value, items.is_embedded),
                        None if self.preserves_unknown_fields => {}
                        None => Self::default().prune_value(value, false),
                    }
                }
            }
            Value::Object(fields) => {
                let keeps =
                    |name: &str| has_type && matches!(name, "apiVersion" | "kind" | "metadata");
                fields.retain(|name, value| {
                    if keeps(name) {
                        return true;
                    }
                    let schema = self.properties.get(name).or(self.additional.as_deref());
                    match schema {
                        Some(schema) => {
                            schema.prune_value(value, schema.is_embedded);
                            true
                        }
                        None => self.preserves_unknown_fields,
                    }
                });
            }
            _ => {}
        }
    }

    /// Sets the defaults of absent fields. A null that is not allowed counts as absent, and
    /// disappears if there is no default.
    pub(crate) fn apply_defaults(&self, value: &mut Value) {
        match value {
            Value::Array(values) => {
                if let Some(items) = &self.items {
                    values
                        .iter_mut()
                        .for_each(|value| items.apply_defaults(value));
                }
            }
            Value::Object(fields) => {
                fields.retain(|name, value| {
                    let schema = self.properties.get(name).or(self.additional.as_deref());
                    let drops_null =
                        |schema: &Self| !schema.is_nullable && schema.default.is_none();
                    !(value.is_null() && schema.is_some_and(drops_null))
                });
                for (name, schema) in &self.properties {
                    let is_null = fields.get(name).is_some_and(Value::is_null);
                    if let Some(default) = &schema.default
                        && (!fields.contains_key(name) || is_null && !schema.is_nullable)
                    {
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields {
                    let schema = self.properties.get(name).or(self.additional.as_deref());
                    if let Some(schema) = schema {
                        schema.apply_defaults(value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns what is wrong with an object.
    pub(crate) fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let fields = object.as_object().into_iter().flatten();
        let content: Map<String, Value> = fields
            .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.validate_value(&Value::Object(content), "", &mut causes);
        causes
    }

    fn validate_value(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if value.is_null() && self.is_nullable {
            return;
        }
        if !self.has_type_of(value) {
            let expected = match &self.kind {
                Some(kind) if !self.is_int_or_string => kind.as_str(),
                _ => "integer,string",
            };
            let found = type_name(value);
            let message = format!(
                "Invalid value: \"{found}\": {path} in body must be of type {expected}: \"{found}\""
            );
            causes.push(Cause::new("FieldValueTypeInvalid", path, message));
            return;
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            let allowed: Vec<String> = self.allowed.iter().map(Value::to_string).collect();
            let message = format!(
                "Unsupported value: {value}: supported values: {}",
                allowed.join(", ")
            );
            causes.push(Cause::new("FieldValueNotSupported", path, message));
        }
        match value {
            Value::Number(number) => self.validate_number(number.as_f64(), value, path, causes),
            Value::String(text) => self.validate_text(text, value, path, causes),
            Value::Array(items) => self.validate_items(items, path, causes),
            Value::Object(fields) => self.validate_fields(fields, value, path, causes),
            _ => {}
        }
    }

    fn has_type_of(&self, value: &Value) -> bool {
        if self.is_int_or_string {
            return value.is_string() || value.is_i64() || value.is_u64();
        }
        match self.kind.as_deref() {
            None => true,
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("number") => value.is_number(),
            Some("integer") => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            Some(_) => false,
        }
    }

    fn validate_number(
        &self,
        number: Option<f64>,
        value: &Value,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        let Some(number) = number else { return };
        if let Some((least, is_exclusive)) = self.minimum
            && (number < least || is_exclusive && number == least)
        {
            let relation = if is_exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let why = format!("{path} in body should be {relation} {least}");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some((most, is_exclusive)) = self.maximum
            && (number > most || is_exclusive && number == most)
        {
            let relation = if is_exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let why = format!("{path} in body should be {relation} {most}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }

    fn validate_text(&self, text: &str, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let length = text.chars().count() as u64;
        // A real server reports the first of these only.
        if let Some(most) = self.lengths.most.filter(|most| length > *most) {
            let message = format!("Too long: may not be more than {most} bytes");
            causes.push(Cause::new("FieldValueTooLong", path, message));
        } else if let Some(least) = self.lengths.least.filter(|least| length < *least) {
            let why = format!("{path} in body should be at least {least} chars long");
            causes.push(Cause::invalid(path, value, &why));
        } else if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(text)) {
            let why = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, value, &why));
        }
        if self.format.as_deref() == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
            let message = format!(
                "Invalid value: {value}: {path} in body must be of type date-time: {value}"
            );
            causes.push(Cause::new("FieldValueTypeInvalid", path, message));
        }
    }

    fn validate_items(&self, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
        let count = items.len() as u64;
        if let Some(least) = self.item_counts.least.filter(|least| count < *least) {
            let why = format!("{path} in body should have at least {least} items");
            causes.push(Cause::invalid(path, &count.into(), &why));
        }
        if let Some(most) = self.item_counts.most.filter(|most| count > *most) {
            let message = format!("Too many: {count}: must have at most {most} items");
            causes.push(Cause::new("FieldValueTooMany", path, message));
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = &self.items {
                schema.validate_value(item, &format!("{path}[{index}]"), causes);
            }
            let is_same = |other: &Value| {
                let keys = &self.list_keys;
                self.is_set && other == item
                    || !keys.is_empty() && keys.iter().all(|key| other[key] == item[key])
            };
            if items[..index].iter().any(is_same) {
                let message = format!("Duplicate value: {item}");
                causes.push(Cause::new(
                    "FieldValueDuplicate",
                    format!("{path}[{index}]"),
                    message,
                ));
            }
        }
    }

    fn validate_fields(
        &self,
        fields: &Map<String, Value>,
        value: &Value,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        let join = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        for name in self
            .required
            .iter()
            .filter(|name| !fields.contains_key(*name))
        {
            causes.push(Cause::required(join(name), ""));
        }
        let count = fields.len() as u64;
        if let Some(least) = self.property_counts.least.filter(|least| count < *least) {
            let why = format!("{path} in body should have at least {least} properties");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(most) = self.property_counts.most.filter(|most| count > *most) {
            let message = format!("Too many: {count}: must have at most {most} items");
            causes.push(Cause::new("FieldValueTooMany", path, message));
        }
        for (name, value) in fields {
            if let Some(schema) = self.properties.get(name) {
                schema.validate_value(value, &join(name), causes);
            } else if let Some(schema) = &self.additional {
                schema.validate_value(value, &join(name), causes);
            }
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(value: Value) -> Schema {
        let spec = json!({"type": "object", "properties": {"spec": value}});
        Schema::parse_root(&spec).expect("a valid schema")
    }

    #[test]
    fn unknown_fields_are_pruned_unless_the_schema_preserves_them() {
        let schema = schema(json!({"type": "object", "properties": {
            "known": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object"}},
        }}));
        let mut object = json!({"kind": "X", "metadata": {"name": "a"}, "other": 1, "spec": {
            "known": [{"a": "x", "b": 1}], "free": {"any": 1}, "map": {"k": {"x": 1}}, "unknown": 1}});
        schema.prune(&mut object);
        let expected = json!({"kind": "X", "metadata": {"name": "a"}, "spec": {
            "known": [{"a": "x"}], "free": {"any": 1}, "map": {"k": {}}}});
        assert_eq!(object, expected);
    }

    #[test]
    fn each_rule_names_field_and_reason() {
        let cases = [
            (json!({"type": "string"}), json!(1), "FieldValueTypeInvalid"),
            (
                json!({"type": "string", "enum": ["a"]}),
                json!("b"),
                "FieldValueNotSupported",
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "FieldValueInvalid",
            ),
            (
                json!({"type": "string", "maxLength": 1}),
                json!("ab"),
                "FieldValueTooLong",
            ),
            (
                json!({"type": "string", "pattern": "^a$"}),
                json!("b"),
                "FieldValueInvalid",
            ),
            (
                json!({"type": "array", "maxItems": 0}),
                json!([1]),
                "FieldValueTooMany",
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                "FieldValueTypeInvalid",
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("x"),
                "FieldValueTypeInvalid",
            ),
        ];
        for (rule, value, reason) in cases {
            let causes = schema(rule.clone()).validate(&json!({"spec": value}));
            let found: Vec<_> = causes
                .iter()
                .map(|c| (c.reason, c.field.as_str()))
                .collect();
            assert_eq!(found, [(reason, "spec")], "{rule}");
        }
        let required = schema(json!({"type": "object", "required": ["a"]}));
        let causes = required.validate(&json!({"spec": {}}));
        assert_eq!(causes, [Cause::required("spec.a", "")]);
    }
}
