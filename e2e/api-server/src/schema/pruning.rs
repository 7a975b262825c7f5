//! Fields that a schema removes or adds: unknown fields and defaults.

use serde_json::Value;

use super::Schema;

impl Schema {
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::schema;

    #[test]
    fn unknown_fields_are_pruned_unless_the_schema_preserves_them() {
        let schema = schema(&json!({"type": "object", "properties": {
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
}
