//! The CustomResourceDefinitions, from the types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{CustomResourceExt, Resource as _};

use crate::rules;
use crate::{
    ClusterJobPolicy, JobPolicy, PodGroup, QuotaPolicy, ResourceFlavor, RuntimeProfile, Topology,
    TrainingJob, TrainingQueue,
};

/// Largest CRD, in bytes of JSON: client-side apply keeps a copy of the object
/// in an annotation, and annotations end at 256 KiB.
pub const MAX_SIZE: usize = 100 * 1024;

/// Every kind of Trellis.
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
        RuntimeProfile::crd(),
    ];
    for crd in &mut all {
        let is_job = crd.spec.names.kind == TrainingJob::kind(&());
        let versions = crd.spec.versions.iter_mut();
        for schema in versions.filter_map(|v| v.schema.as_mut()?.open_api_v3_schema.as_mut()) {
            if is_job {
                let rules = schema.x_kubernetes_validations.get_or_insert_default();
                rules.extend(rules::on_change().map(|rule| rule.of_schema()));
            }
            name_the_name(schema);
        }
    }
    all
}

/// The API server names a field only if the schema has it: `metadata.name`, which
/// the derive leaves out, where a rule is about it.
fn name_the_name(schema: &mut JSONSchemaProps) {
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

/// A CRD as YAML, as it stands in the chart.
///
/// # Errors
/// None that a CRD of [`all`] could cause.
pub fn yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser_error::Error> {
    serde_saphyr::to_string(crd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
    fn no_default_no_unsigned_and_small_enough() {
        for crd in all() {
            let json = serde_json::to_value(&crd).unwrap();
            let size = serde_json::to_string(&crd).unwrap().len();
            assert!(size <= MAX_SIZE, "{}: {size} bytes", crd.spec.names.kind);
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

    /// kubectl reads YAML 1.1: a field of such a name would be another's, and a word no word.
    #[test]
    fn no_name_is_a_boolean() {
        let booleans = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
        let is_one = |word: &str| booleans.contains(&word.to_ascii_lowercase().as_str());
        for crd in all() {
            let json = serde_json::to_value(&crd).unwrap();
            walk(&json, "", &mut |path, value| {
                if let (true, Value::Object(fields)) = (path.ends_with("/properties"), value) {
                    let named = fields.keys().find(|name| is_one(name));
                    assert_eq!(named, None, "{path}");
                }
                let word = value
                    .as_str()
                    .filter(|word| path.ends_with("/enum") && is_one(word));
                assert_eq!(word, None, "{path}");
            });
        }
    }

    /// Helm does not upgrade CRDs: a new word of the operator must not be refused by an old one.
    #[test]
    fn no_closed_list_in_status() {
        let mut words = 0;
        for crd in all() {
            let json = serde_json::to_value(&crd).unwrap();
            let schema = &json["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            // Kubernetes' own Condition is closed by Kubernetes: True, False, Unknown.
            let status = &schema["properties"]["status"];
            walk(status, "", &mut |path, value| {
                assert!(!path.ends_with("/enum"), "{path}: {value}");
                if path.ends_with("/phase/maxLength") || path == "/properties/reason/maxLength" {
                    words += 1;
                }
            });
        }
        assert_eq!(words, 4, "phase and reason of TrainingJob and PodGroup");
    }

    #[test]
    fn short_names_are_the_documented_ones() {
        let names: Vec<_> = all()
            .into_iter()
            .map(|c| c.spec.names.short_names.unwrap_or_default().join(","))
            .collect();
        assert_eq!(
            names,
            [
                "tj", "tq", "tpg", "trf", "ttopo", "cjobpol", "jobpol", "quotapol", "trp"
            ]
        );
    }
}
