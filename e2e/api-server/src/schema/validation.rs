//! The rules that a value must keep.

use serde_json::{Map, Value};

use super::Schema;
use crate::status::Cause;

impl Schema {
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

    use super::super::fixtures::schema;
    use super::*;

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
            let causes = schema(&rule).validate(&json!({"spec": value}));
            let found: Vec<_> = causes
                .iter()
                .map(|c| (c.reason, c.field.as_str()))
                .collect();
            assert_eq!(found, [(reason, "spec")], "{rule}");
        }
        let required = schema(&json!({"type": "object", "required": ["a"]}));
        let causes = required.validate(&json!({"spec": {}}));
        assert_eq!(causes, [Cause::required("spec.a", "")]);
    }
}
