//! Tests of pod templates: written templates and their violations.

mod containers;
mod ephemeral_volume;
mod jobs_and_profiles;
mod kubernetes_fields;
mod reserved_fields;

use super::*;
use serde_json::json;

fn template(written: Value) -> PodTemplate {
    serde_json::from_value(written).unwrap()
}

/// Returns path and message of all violations.
fn violation_rows(written: Value) -> Vec<(String, String)> {
    let violations = template(written).violations();
    violations
        .into_iter()
        .map(|v| (v.path, v.message))
        .collect()
}

#[track_caller]
fn assert_one_violation(written: Value, path: &str, words: &str) {
    let all = violation_rows(written.clone());
    assert_eq!(all.len(), 1, "{written}: {all:?}");
    assert_eq!(all[0].0, path, "{written}");
    assert!(all[0].1.contains(words), "{}", all[0].1);
}

fn spec(field: &str, value: Value) -> Value {
    json!({"spec": {field: value}})
}

/// Returns a template with one container of this kind and name, with these fields.
fn container(kind: &str, name: &str, says: Value) -> Value {
    let mut container = json!({"name": name});
    let says = says.as_object().unwrap().clone();
    container.as_object_mut().unwrap().extend(says);
    json!({"spec": {kind: [container]}})
}
