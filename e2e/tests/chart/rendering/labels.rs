//! Labels and annotations from values. They never replace the chart's own ones.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use trellis_api::names;
use trellis_e2e::helm::Helm;

use crate::fixtures::{OTHER_NAMESPACE, all_enabled_values, check_refused};

/// The dashboard's own labels, which values name.
const DASHBOARD_LABEL: &str = "grafana_dashboard";

fn keys(object: &Value) -> BTreeSet<String> {
    let keys = object.as_object().into_iter().flat_map(|map| map.keys());
    keys.cloned().collect()
}

/// Returns `{at: {key: value}}`. `at` is a path with dots.
fn nested_value(at: &str, key: &str, value: &str) -> Value {
    let inner = json!({key: value});
    at.rsplit('.').fold(inner, |inner, key| json!({key: inner}))
}

/// The chart refuses values for labels that an object has by itself, and for labels that select its
/// pods.
pub(crate) fn test_reserved_labels(helm: &Helm) -> Result<()> {
    let objects = helm.render_objects(OTHER_NAMESPACE, &all_enabled_values())?;
    let mut own = BTreeSet::new();
    let (mut of_pods, mut notes) = (BTreeSet::from([names::ROLE.to_owned()]), BTreeSet::new());
    for object in &objects {
        own.append(&mut keys(&object["metadata"]["labels"]));
        let pod = &object["spec"]["template"]["metadata"];
        of_pods.append(&mut keys(&pod["labels"]));
        notes.append(&mut keys(&pod["annotations"]));
        of_pods.append(&mut selector_labels(object));
    }
    own.remove(DASHBOARD_LABEL);
    ensure!(own.len() > 7, "{own:?}");
    ensure!(
        of_pods.len() == 2 && notes.len() == 1,
        "{of_pods:?} {notes:?}"
    );
    own.append(&mut of_pods.clone());
    let parts = ["serviceMonitor", "prometheusRule", "dashboard"];
    let parts = parts.map(|part| format!("metrics.{part}.labels"));
    let mut fields = vec![
        ("commonLabels", &own),
        ("podLabels", &of_pods),
        ("podAnnotations", &notes),
    ];
    fields.extend(parts.iter().map(|at| (at.as_str(), &own)));
    for (at, keys) in fields {
        for key in keys {
            let mut values_with_labels = all_enabled_values();
            merge_values(&mut values_with_labels, nested_value(at, key, "mine"));
            check_refused(
                helm,
                &values_with_labels,
                &format!("{at} must not have \"{key}\""),
            )?;
        }
    }
    Ok(())
}

/// Returns the selector of a Service.
fn selector_labels(object: &Value) -> BTreeSet<String> {
    match object["kind"] == "Service" {
        true => keys(&object["spec"]["selector"]),
        false => BTreeSet::new(),
    }
}

fn merge_values(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge_values(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// If several values set the same label, the most specific one wins, and the label appears once.
pub(crate) fn test_label_precedence(helm: &Helm) -> Result<()> {
    let team = |name: &str| json!({"team": name, "app.kubernetes.io/component": "operator"});
    let mut values_with_team = all_enabled_values();
    for part in ["serviceMonitor", "prometheusRule", "dashboard"] {
        values_with_team["metrics"][part]["labels"] = team("monitoring");
    }
    values_with_team["commonLabels"] = team("platform");
    values_with_team["podLabels"] = team("pods");
    for object in helm.render_objects(OTHER_NAMESPACE, &values_with_team)? {
        let expected = match object["kind"].as_str() {
            Some("ServiceMonitor" | "PrometheusRule" | "ConfigMap") => "monitoring",
            _ => "platform",
        };
        let value = &object["metadata"]["labels"]["team"];
        ensure!(value == expected, "{object:#}");
        let pods = &object["spec"]["template"]["metadata"]["labels"]["team"];
        ensure!(pods.is_null() || pods == "pods", "{object:#}");
        ensure!(object["kind"] != "Deployment" || pods == "pods");
    }
    Ok(())
}
