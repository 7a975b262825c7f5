//! OpenAPI 3 schemas of the group's kinds, as shown by `kubectl explain`.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{
    EndedAttempt, Explanation, Forecast, GROUP, JobState, NodeState, Plan, QueueState,
    ServedResource, VERSION, VisibleNamespace,
};

/// Returns each kind with its self-contained schema.
#[must_use]
pub fn schemas() -> Vec<(&'static ServedResource, Value)> {
    vec![
        (
            &JobState::SERVED,
            resource_schema::<JobState>(&JobState::SERVED),
        ),
        (
            &QueueState::SERVED,
            resource_schema::<QueueState>(&QueueState::SERVED),
        ),
        (
            &NodeState::SERVED,
            resource_schema::<NodeState>(&NodeState::SERVED),
        ),
        (
            &Explanation::SERVED,
            resource_schema::<Explanation>(&Explanation::SERVED),
        ),
        (
            &EndedAttempt::SERVED,
            resource_schema::<EndedAttempt>(&EndedAttempt::SERVED),
        ),
        (
            &Forecast::SERVED,
            resource_schema::<Forecast>(&Forecast::SERVED),
        ),
        (&Plan::SERVED, resource_schema::<Plan>(&Plan::SERVED)),
        (
            &VisibleNamespace::SERVED,
            resource_schema::<VisibleNamespace>(&VisibleNamespace::SERVED),
        ),
    ]
}

fn resource_schema<T: JsonSchema>(served: &ServedResource) -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    if let Some(schema) = schema.as_object_mut() {
        let kind = json!([{"group": GROUP, "version": VERSION, "kind": served.kind}]);
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    let mut fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, about) in [
        ("apiVersion", "Group and version of this kind."),
        ("kind", "This kind."),
    ] {
        if let Some(fields) = &mut fields {
            let schema = json!({"type": "string", "description": about});
            fields.insert(field.to_owned(), schema);
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::super::ALL_RESOURCES;
    use super::*;

    #[test]
    fn schema_describes_every_field() {
        let all = schemas();
        let kinds: Vec<&str> = all.iter().map(|(served, _)| served.kind).collect();
        let served: Vec<&str> = ALL_RESOURCES.iter().map(|served| served.kind).collect();
        assert_eq!(kinds, served);
        for (served, schema) in all {
            assert!(!schema.to_string().contains("$ref"), "{}", served.kind);
            let fields = schema["properties"].as_object().unwrap();
            assert!(fields.len() > 4, "{}: {fields:?}", served.kind);
            for (name, field) in fields {
                let about = field["description"].as_str().unwrap_or_default();
                assert!(!about.is_empty(), "{}.{name}", served.kind);
            }
        }
    }
}
