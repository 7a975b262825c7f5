use super::*;
use crate::pod_security::field_rules::POD;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Kubernetes' own schema of a pod.
struct PodSchema(Value);

impl PodSchema {
    fn load() -> Self {
        Self(schemars::schema_for!(Pod).to_value())
    }

    /// The properties of the type of a field, or of its items. None: it has none.
    fn properties<'a>(&'a self, schema: &'a Value) -> Option<&'a serde_json::Map<String, Value>> {
        if let Some(of) = schema["$ref"].as_str() {
            let name = of.rsplit('/').next().unwrap();
            return self.properties(&self.0["$defs"][name]);
        }
        for wrapped in ["allOf", "anyOf", "oneOf"] {
            let found = schema[wrapped].as_array().into_iter().flatten();
            if let Some(found) = found.filter_map(|s| self.properties(s)).next() {
                return Some(found);
            }
        }
        match schema.get("items") {
            Some(items) => self.properties(items),
            None => schema["properties"].as_object(),
        }
    }

    fn compare_fields(&self, schema: &Value, fields: FieldRules, path: &str, seen: &mut usize) {
        let properties = self
            .properties(schema)
            .unwrap_or_else(|| panic!("{path} has no fields"));
        let known: Vec<_> = properties.keys().map(String::as_str).collect();
        for (field, is) in fields {
            let path = format!("{path}.{field}");
            assert!(known.contains(field), "{path} is no field of Kubernetes");
            assert_eq!(
                fields.iter().filter(|(f, _)| f == field).count(),
                1,
                "{path}"
            );
            *seen = seen.saturating_add(1);
            let of = &properties[*field];
            match is {
                FieldRule::Nested(fields) => self.compare_fields(of, fields, &path, seen),
                FieldRule::Harmless | FieldRule::Only(_) => {
                    assert!(
                        self.properties(of).is_none(),
                        "{path} has fields of its own: list them"
                    );
                }
                FieldRule::Checked | FieldRule::Never(_) => {}
            }
        }
        for field in known {
            assert!(
                fields.iter().any(|(f, _)| *f == field),
                "{path}.{field}: say in list.rs what it is"
            );
        }
    }
}

#[test]
fn field_rules_cover_exactly_the_fields_of_kubernetes() {
    let schema = PodSchema::load();
    let mut seen = 0;
    schema.compare_fields(&schema.0, POD, "pod", &mut seen);
    assert!(seen > 300, "{seen}");
}

fn unlisted_paths(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_unlisted(pod, POD, "", &mut found);
    found.into_iter().map(|u| u.path).collect()
}

/// A field that is not on the list is refused at any depth.
#[test]
fn unlisted_field_is_refused_with_its_path() {
    let strange = json!({"strange": true});
    for (pod, path) in [
        (json!({"strange": 1}), "strange"),
        (json!({"metadata": strange}), "metadata.strange"),
        (json!({"spec": strange}), "spec.strange"),
        (
            json!({"spec": {"containers": [{}, strange]}}),
            "spec.containers[1].strange",
        ),
        (
            json!({"spec": {"initContainers": [{"securityContext": strange}]}}),
            "spec.initContainers[0].securityContext.strange",
        ),
        (
            json!({"spec": {"volumes": [{"projected": {"sources": [strange]}}]}}),
            "spec.volumes[0].projected.sources[0].strange",
        ),
        (
            json!({"spec": {"volumes": [strange]}}),
            "spec.volumes[0].strange",
        ),
    ] {
        assert_eq!(unlisted_paths(&pod), [path], "{pod}");
    }
    assert_eq!(
        unlisted_paths(&json!({"spec": {"priority": null}})),
        Vec::<String>::new()
    );
}
