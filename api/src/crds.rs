//! The CustomResourceDefinitions, generated from the types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{CustomResourceExt, Resource as _};

use crate::framework;
use crate::rules::{self, Rule};
use crate::{
    ClusterJobPolicy, JobPolicy, LeaderTerm, PodGroup, QuotaLedger, QuotaPolicy, ResourceFlavor,
    RuntimeProfile, Topology, TrainingJob, TrainingQueue,
};

/// Largest CRD, in bytes of JSON. Client-side apply keeps a copy of the object in an annotation,
/// and annotations are limited to 256 KiB.
pub const MAX_CRD_BYTES: usize = 100 * 1024;

/// Returns the CRD of every Trellis kind.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        TrainingJob::crd(),
        TrainingQueue::crd(),
        PodGroup::crd(),
        ResourceFlavor::crd(),
        Topology::crd(),
        ClusterJobPolicy::crd(),
        JobPolicy::crd(),
        QuotaPolicy::crd(),
        QuotaLedger::crd(),
        RuntimeProfile::crd(),
        LeaderTerm::crd(),
    ];
    for crd in &mut all {
        let is_job = crd.spec.names.kind == TrainingJob::kind(&());
        let versions = crd.spec.versions.iter_mut();
        for schema in versions.filter_map(|v| v.schema.as_mut()?.open_api_v3_schema.as_mut()) {
            if is_job {
                let rules = schema.x_kubernetes_validations.get_or_insert_default();
                rules.extend(rules::change_rules().map(|rule| rule.to_schema_rule()));
            }
            let of_frameworks: Vec<Rule> = match crd.spec.names.kind.as_str() {
                "TrainingJob" => framework::job_rules().collect(),
                "RuntimeProfile" => framework::profile_rules().collect(),
                _ => Vec::new(),
            };
            add_spec_rules(schema, &of_frameworks);
            add_metadata_name(schema);
            tighten(schema);
        }
    }
    all
}

/// Adds rules to the schema's `spec`.
fn add_spec_rules(schema: &mut JSONSchemaProps, rules: &[Rule]) {
    let spec = schema.properties.as_mut().and_then(|p| p.get_mut("spec"));
    if let Some(spec) = spec.filter(|_| !rules.is_empty()) {
        let all = spec.x_kubernetes_validations.get_or_insert_default();
        all.extend(rules.iter().map(|rule| rule.to_schema_rule()));
    }
}

/// Completes the derived schema: no field accepts null, every list states how appliers merge it,
/// and conditions have the bounds of metav1.
fn tighten(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if schema.type_.as_deref() == Some("array") {
        let list_type = &mut schema.x_kubernetes_list_type;
        list_type.get_or_insert_with(|| "atomic".to_owned());
    }
    if is_condition(schema) {
        apply_metav1_bounds(schema);
    }
    for (name, property) in schema.properties.iter_mut().flatten() {
        tighten(property);
        if name == "nodeAffinity" {
            drop_inner_descriptions(property);
        }
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tighten(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tighten),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tighten(values);
    }
}

/// Removes the descriptions of the fields of a core/v1 type. `kubectl explain` shows them at pods, and
/// they are repeated for each list of terms.
fn drop_inner_descriptions(schema: &mut JSONSchemaProps) {
    let properties = schema.properties.iter_mut().flatten();
    let items = match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items.as_mut()),
        _ => None,
    };
    for inner in properties.map(|(_, property)| property).chain(items) {
        inner.description = None;
        drop_inner_descriptions(inner);
    }
}

fn is_condition(schema: &JSONSchemaProps) -> bool {
    let fields = ["lastTransitionTime", "message", "reason", "status", "type"];
    let properties = schema.properties.as_ref();
    properties.is_some_and(|has| fields.iter().all(|field| has.contains_key(*field)))
}

/// Adds the bounds, patterns and enum of metav1.Condition, which its Go type has as markers.
fn apply_metav1_bounds(condition: &mut JSONSchemaProps) {
    let fields = condition.properties.iter_mut().flatten();
    for (name, field) in fields {
        match name.as_str() {
            "message" => field.max_length = Some(32_768),
            "observedGeneration" => field.minimum = Some(0.0),
            "reason" => {
                field.min_length = Some(1);
                field.max_length = Some(1_024);
                field.pattern = Some("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$".to_owned());
            }
            "status" => {
                let words = ["True", "False", "Unknown"];
                field.enum_ = Some(words.map(|word| JSON(word.into())).to_vec());
            }
            "type" => {
                field.max_length = Some(316);
                field.pattern = Some(
                    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                        .to_owned(),
                );
            }
            _ => {}
        }
    }
}

/// Adds `metadata.name` to a schema with a rule about it. The derive omits this field, and the API
/// server names a field in an error only if the schema has it.
fn add_metadata_name(schema: &mut JSONSchemaProps) {
    let mut rules = schema.x_kubernetes_validations.iter().flatten();
    if !rules.any(|rule| rule.field_path.as_deref() == Some(".metadata.name")) {
        return;
    }
    let of = |type_: &str, properties| JSONSchemaProps {
        type_: Some(type_.to_owned()),
        properties,
        ..JSONSchemaProps::default()
    };
    let name = BTreeMap::from([("name".to_owned(), of("string", None))]);
    let properties = schema.properties.get_or_insert_default();
    properties.insert("metadata".to_owned(), of("object", Some(name)));
}

/// Returns the CRD of every Trellis kind as a file of the chart: its name, `<plural>.yaml`, and its
/// YAML.
///
/// # Errors
/// No CRD of [`all`] causes an error.
pub fn to_files() -> Result<Vec<(String, String)>, serde_saphyr::ser_error::Error> {
    all()
        .iter()
        .map(|crd| {
            let name = format!("{}.yaml", crd.spec.names.plural);
            Ok((name, serde_saphyr::to_string(crd)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Path of the allowed statuses of a condition.
    const CONDITION_STATUS: &str = "/conditions/items/properties/status/enum";

    /// Visits each value of each CRD, with its path.
    fn walk_all(mut see: impl FnMut(&str, &Value)) {
        for crd in all() {
            walk(&serde_json::to_value(&crd).unwrap(), "", &mut see);
        }
    }

    fn walk(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
        visit(path, value);
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    walk(child, &format!("{path}/{key}"), visit);
                }
            }
            Value::Array(list) => {
                for child in list {
                    walk(child, path, visit);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn crd_is_small_and_has_no_defaults_or_unsigned_formats() {
        for crd in all() {
            let json = serde_json::to_value(&crd).unwrap();
            let size = serde_json::to_string(&crd).unwrap().len();
            assert!(
                size <= MAX_CRD_BYTES,
                "{}: {size} bytes",
                crd.spec.names.kind
            );
            walk(&json, "", &mut |path, value| {
                if path.ends_with("/default") {
                    panic!("a default at {path}: {value}");
                }
                if path.ends_with("/format") && value.is_string() {
                    assert!(!value.as_str().unwrap().starts_with("uint"), "{path}");
                }
            });
        }
    }

    /// kubectl reads YAML 1.1, which would read such a field name or enum word as a boolean.
    #[test]
    fn field_and_enum_names_are_no_yaml_booleans() {
        let booleans = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
        let is_one = |word: &str| booleans.contains(&word.to_ascii_lowercase().as_str());
        walk_all(|path, value| {
            if let (true, Value::Object(fields)) = (path.ends_with("/properties"), value) {
                let field = fields.keys().find(|name| is_one(name));
                assert_eq!(field, None, "{path}");
            }
            // The statuses of a condition are Kubernetes' own, and are written as quoted strings.
            let word = value.as_str().filter(|word| is_one(word));
            let word =
                word.filter(|_| path.ends_with("/enum") && !path.ends_with(CONDITION_STATUS));
            assert_eq!(word, None, "{path}");
        });
    }

    /// Helm does not upgrade CRDs, so an old CRD must accept a new word of the operator.
    #[test]
    fn status_has_no_closed_enums() {
        let mut words = 0;
        for crd in all() {
            let json = serde_json::to_value(&crd).unwrap();
            let schema = &json["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            // Kubernetes closes its own Condition: True, False, Unknown.
            let status = &schema["properties"]["status"];
            walk(status, "", &mut |path, value| {
                let is_closed = path.ends_with("/enum") && !path.ends_with(CONDITION_STATUS);
                assert!(!is_closed, "{path}: {value}");
                if path.ends_with("/phase/maxLength") || path == "/properties/reason/maxLength" {
                    words += 1;
                }
            });
        }
        assert_eq!(words, 4, "phase and reason of TrainingJob and PodGroup");
    }

    #[test]
    fn fields_refuse_null_and_lists_have_a_merge_type() {
        walk_all(|path, value| {
            assert!(!path.ends_with("/nullable"), "{path}");
            let is_list = value["type"] == "array" && !path.ends_with("/properties");
            assert!(
                !is_list || value["x-kubernetes-list-type"].is_string(),
                "{path}"
            );
        });
    }

    #[test]
    fn conditions_have_the_schema_of_metav1() {
        let mut conditions = 0;
        walk_all(|path, value| {
            if path.ends_with("/conditions") && value["type"] == "array" {
                conditions += 1;
                let fields = &value["items"]["properties"];
                assert_eq!(fields["status"]["enum"][2], "Unknown", "{path}");
                assert_eq!(fields["reason"]["minLength"], 1, "{path}");
                assert_eq!(fields["type"]["maxLength"], 316, "{path}");
                assert_eq!(value["x-kubernetes-list-map-keys"][0], "type", "{path}");
            }
        });
        assert_eq!(
            conditions, 7,
            "jobs, queues, flavors, profiles, and policies of three kinds"
        );
    }

    #[test]
    fn short_names_match_the_documentation() {
        let names: Vec<_> = all()
            .into_iter()
            .map(|c| c.spec.names.short_names.unwrap_or_default().join(","))
            .collect();
        assert_eq!(
            names,
            [
                "tj", "tq", "tpg", "trf", "ttopo", "cjobpol", "jobpol", "quotapol", "qledger",
                "trp", "tterm"
            ]
        );
    }
}
