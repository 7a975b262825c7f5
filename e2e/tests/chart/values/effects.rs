//! The effect of each value: the objects that it adds, changes and removes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::Helm;

use crate::fixtures::{OTHER_NAMESPACE, object_key};
use crate::values;

/// A change that affects at least this many objects is listed once.
const GROUPING_THRESHOLD: usize = 4;

type ObjectsByName = BTreeMap<String, Value>;

/// Values that are no matter of on and off: each with a value that is not its default.
fn sample_values() -> BTreeMap<&'static str, Value> {
    let selector = json!([{"namespaceSelector": {"matchLabels": {"team": "platform"}}}]);
    let block = json!([{"ipBlock": {"cidr": "10.0.0.0/24"}}]);
    let rack = json!([{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}}]);
    let all = [
        ("image.repository", json!("registry.internal/trellis")),
        ("image.tag", json!("1.2.3")),
        ("image.digest", json!(format!("sha256:{}", "0".repeat(64)))),
        ("image.pullPolicy", json!("Always")),
        ("imagePullSecrets", json!([{"name": "pull"}])),
        ("replicaCount", json!(3)),
        ("operator.logFormat", json!("human")),
        ("operator.leaseSeconds", json!(30)),
        ("operator.clusterDomain", json!("cluster.internal")),
        (
            "operator.dns",
            json!(["kube-system/k8s-app=dns", "169.254.20.10/32"]),
        ),
        ("operator.bindAddress", json!("[::]")),
        ("operator.lookForSecretsIn", json!(["team-a"])),
        (
            "operator.extraArgs",
            json!(["--unhealthy-taints=example.com/broken"]),
        ),
        (
            "operator.extraEnv",
            json!([{"name": "RUST_LOG", "value": "debug"}]),
        ),
        ("certificates.source", json!("certManager")),
        (
            "certificates.certManager.issuerRef",
            json!({"kind": "ClusterIssuer", "name": "internal"}),
        ),
        ("certificates.certManager.duration", json!("720h")),
        ("certificates.certManager.renewBefore", json!("240h")),
        ("endpoint.tlsSecret", json!("given")),
        ("visibility.caBundle", json!("Y2VydA==")),
        ("admission.requesterStamp", json!("webhook")),
        ("flowControl.shares", json!(80)),
        ("networkPolicy.endpointFrom", json!(selector)),
        ("networkPolicy.apiServersFrom", json!(block)),
        ("networkPolicy.webhookFrom", json!(block)),
        ("networkPolicy.apiServer", json!(block)),
        ("networkPolicy.apiServerPorts", json!([6443])),
        (
            "networkPolicy.extraEgress",
            json!([{"ports": [{"port": 4317}], "to": selector}]),
        ),
        ("podDisruptionBudget.maxUnavailable", json!("50%")),
        (
            "metrics.readers",
            json!([{"namespace": "monitoring", "name": "prometheus"}]),
        ),
        (
            "metrics.serviceMonitor.labels",
            json!({"release": "monitoring"}),
        ),
        ("metrics.serviceMonitor.interval", json!("1m")),
        (
            "metrics.prometheusRule.labels",
            json!({"release": "monitoring"}),
        ),
        ("metrics.dashboard.labels", json!({"release": "monitoring"})),
        ("provisioning.namespace", json!("gpu-capacity")),
        ("verify.schedule", json!("5 4 * * *")),
        ("verify.watchTime", json!("1h")),
        ("verify.resources", json!({"limits": {"memory": "2Gi"}})),
        ("dashboard.publicUrl", json!("https://page.example.org")),
        ("dashboard.from", json!(selector)),
        ("dashboard.resources", json!({"limits": {"memory": "1Gi"}})),
        (
            "resources",
            json!({"requests": {"cpu": 1}, "limits": {"memory": "4Gi"}}),
        ),
        (
            "podSecurityContext",
            json!({"runAsUser": null, "runAsGroup": 1000, "fsGroup": null,
                "fsGroupChangePolicy": "OnRootMismatch"}),
        ),
        (
            "securityContext",
            json!({"readOnlyRootFilesystem": false, "runAsUser": 1000}),
        ),
        (
            "serviceAccount.annotations",
            json!({"iam.example.com/role": "trellis"}),
        ),
        ("terminationGracePeriodSeconds", json!(60)),
        ("priorityClassName", json!("system-cluster-critical")),
        ("nodeSelector", json!({"pool": "system"})),
        (
            "tolerations",
            json!([{"key": "pool", "operator": "Exists"}]),
        ),
        (
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}}}),
        ),
        ("topologySpreadConstraints", json!(rack)),
        ("podAnnotations", json!({"a": "b"})),
        ("podLabels", json!({"c": "d"})),
        ("commonLabels", json!({"team": "platform"})),
    ];
    all.into_iter().collect()
}

/// Other values without which the chart ignores this one.
fn required_values(path: &str) -> Value {
    let address_source = json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}]);
    match path {
        "visibility.caBundle" => json!({"endpoint": {"tlsSecret": "given"}}),
        "networkPolicy.endpointFrom" => {
            json!({"networkPolicy": {"apiServersFrom": address_source}})
        }
        "networkPolicy.apiServersFrom" => {
            json!({"networkPolicy": {"endpointFrom": address_source, "apiServersFrom": address_source}})
        }
        "provisioning.namespace" => json!({"provisioning": {"enabled": true}}),
        _ if path.starts_with("verify.") && path != "verify.enabled" => {
            json!({"verify": {"enabled": true}})
        }
        "dashboard.enabled" => json!({"dashboard": {"publicUrl": "https://trellis.example.org"}}),
        _ if path.starts_with("dashboard.") => {
            json!({"dashboard": {"enabled": true, "publicUrl": "https://trellis.example.org"}})
        }
        _ if path.starts_with("certificates.certManager.") => {
            json!({"certificates": {"source": "certManager"}})
        }
        _ => match path
            .strip_prefix("metrics.")
            .and_then(|p| p.split_once('.'))
        {
            Some((part, "labels" | "interval")) => json!({"metrics": {part: {"enabled": true}}}),
            _ => json!({}),
        },
    }
}

pub(crate) fn test_each_value(helm: &Helm) -> Result<()> {
    let mut base_values = sample_values();
    let mut report = String::new();
    let mut rendered: BTreeMap<String, ObjectsByName> = BTreeMap::new();
    for row in values::read_rows()? {
        let turned = match row.default.as_str() {
            "true" => json!(false),
            "false" => json!(true),
            _ => base_values
                .remove(row.path.as_str())
                .with_context(|| format!("{} is not tested", row.path))?,
        };
        let before = required_values(&row.path);
        let mut after = before.clone();
        let pointer = format!("/{}", row.path.replace('.', "/"));
        set_at(&mut after, &pointer, turned.clone());
        // Most begin with the defaults.
        let key = before.to_string();
        let was = match rendered.get(&key) {
            Some(was) => was,
            None => {
                let was = render_by_name(helm, &before)?;
                &*rendered.entry(key).or_insert(was)
            }
        };
        let changes = differences(was, &render_by_name(helm, &after)?);
        ensure!(!changes.is_empty(), "{} changes nothing", row.path);
        report.push_str(&format!("{}: {turned}\n{changes}\n", row.path));
    }
    ensure!(base_values.is_empty(), "there is no {base_values:?}");
    // The name of the image contains the version.
    let report = report.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!("values", report);
    Ok(())
}

fn render_by_name(helm: &Helm, values: &Value) -> Result<ObjectsByName> {
    let objects = helm.render_objects(OTHER_NAMESPACE, values)?;
    let count = objects.len();
    let named: ObjectsByName = objects.into_iter().map(|o| (object_key(&o), o)).collect();
    ensure!(named.len() == count, "{values}: an object appears twice");
    Ok(named)
}

fn set_at(values: &mut Value, pointer: &str, value: Value) {
    let mut at = values;
    for key in pointer.split('/').skip(1) {
        at = &mut at[key];
    }
    *at = value;
}

/// Returns the added, removed and changed objects, one line each.
fn differences(before: &ObjectsByName, after: &ObjectsByName) -> String {
    let mut lines = Vec::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        lines.push(format!("- {name}"));
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        lines.push(format!("+ {name}"));
    }
    // Each change, with the objects that it affects.
    let mut changes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, was) in before {
        let mut rendered = Vec::new();
        if let Some(is) = after.get(name) {
            collect_changes(was, is, String::new(), &mut rendered);
        }
        for change in rendered {
            changes.entry(change).or_default().push(name);
        }
    }
    for (change, names) in changes {
        match names.len() {
            many if many >= GROUPING_THRESHOLD => lines.push(format!("  {many} objects {change}")),
            _ => lines.extend(names.iter().map(|name| format!("  {name} {change}"))),
        }
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// Adds a line for each different leaf value: the old and the new value.
fn collect_changes(was: &Value, is: &Value, at: String, changes: &mut Vec<String>) {
    match (was, is) {
        _ if was == is => {}
        (Value::Object(was), Value::Object(is)) => {
            for (key, value) in was {
                let inner = is.get(key).unwrap_or(&Value::Null);
                collect_changes(value, inner, format!("{at}.{key}"), changes);
            }
            for (key, value) in is.iter().filter(|(key, _)| !was.contains_key(*key)) {
                changes.push(format!("{at}.{key} + {value}"));
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() != is.len() => {
            let removed = was.iter().filter(|value| !is.contains(value));
            changes.extend(removed.map(|value| format!("{at}[] - {value}")));
            let come = is.iter().filter(|value| !was.contains(value));
            changes.extend(come.map(|value| format!("{at}[] + {value}")));
        }
        (Value::Array(was), Value::Array(is)) => {
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                collect_changes(was, is, format!("{at}[{index}]"), changes);
            }
        }
        (was, Value::Null) => changes.push(format!("{at} - {was}")),
        (was, is) => changes.push(format!("{at}: {was} -> {is}")),
    }
}
