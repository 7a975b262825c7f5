//! Computes the differences between a child and its desired state.

use serde_json::{Map, Value};

/// Returns the merge patch (RFC 7386) that brings a child to its desired state. None without a
/// difference.
///
/// In metadata, additions of other writers stay. Trellis owns the whole spec: the patch removes
/// fields that are not desired, except for defaults of the API server. Lists are replaced, because
/// a merge by key would keep other items.
pub(crate) fn drift_patch(
    kind: &str,
    actual: &Value,
    desired: &Value,
) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for (part, extra) in [
        ("metadata", ExtraKeys::Keep),
        ("spec", ExtraKeys::Remove(defaulted_fields(kind))),
        ("data", ExtraKeys::Remove(&[])),
    ] {
        let Some(desired) = desired.get(part) else {
            continue;
        };
        let actual = actual.get(part).unwrap_or(&Value::Null);
        if let Some(change) = diff_value(actual, desired, extra) {
            patch.insert(part.to_owned(), change);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

/// Treatment of a key that exists and is not desired.
#[derive(Clone, Copy)]
enum ExtraKeys {
    Keep,
    /// Remove the key, unless it is one of these.
    Remove(&'static [&'static str]),
}

/// Returns the fields of a spec that the API server sets by default
/// (`pkg/apis/core/v1/defaults.go`). Trellis writes NetworkPolicies and PodGroups with all fields.
fn defaulted_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "Service" => &[
            "clusterIPs",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
            "protocol",
            "sessionAffinity",
            "targetPort",
            "type",
        ],
        _ => &[],
    }
}

fn diff_value(actual: &Value, desired: &Value, extra: ExtraKeys) -> Option<Value> {
    match (actual, desired) {
        (Value::Object(actual), Value::Object(desired)) => {
            let patch = diff_object(actual, desired, extra);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (Value::Array(actual), Value::Array(desired)) => {
            let same = actual.len() == desired.len()
                && actual
                    .iter()
                    .zip(desired)
                    .all(|(a, w)| diff_value(a, w, extra).is_none());
            (!same).then(|| Value::Array(desired.clone()))
        }
        _ => (actual != desired).then(|| desired.clone()),
    }
}

fn diff_object(
    actual: &Map<String, Value>,
    desired: &Map<String, Value>,
    extra: ExtraKeys,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, desired) in desired {
        let change = match actual.get(key) {
            Some(actual) => diff_value(actual, desired, extra),
            None => (!is_empty(desired)).then(|| desired.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    if let ExtraKeys::Remove(but) = extra {
        let unwanted = actual.iter().filter(|(key, value)| {
            !desired.contains_key(*key) && !but.contains(&key.as_str()) && !is_empty(value)
        });
        patch.extend(unwanted.map(|(key, _)| (key.clone(), Value::Null)));
    }
    patch
}

/// Returns true for an empty list or map, which the API server does not store.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(kind: &str, actual: &Value, desired: &Value) -> Option<Value> {
        super::drift_patch(kind, actual, desired).map(Value::Object)
    }

    #[test]
    fn child_in_its_desired_state_needs_no_patch() {
        let desired = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "j", "labels": {"a": "1"}},
            "spec": {"clusterIP": "None", "ports": [{"name": "x", "port": 1, "protocol": "TCP"}],
                "selector": {"job": "1"}, "none": []}});
        let actual = json!({
            "metadata": {"name": "j", "uid": "u", "labels": {"a": "1", "theirs": "2"}, "annotations": {"b": "c"}},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
                "ports": [{"name": "x", "port": 1, "protocol": "TCP", "targetPort": 1}],
                "selector": {"job": "1"}, "externalIPs": []}});
        assert_eq!(patch("Service", &actual, &desired), None);
    }

    #[test]
    fn lists_are_replaced_as_a_whole() {
        let actual =
            json!({"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
        let desired = json!({"spec": {"ports": [{"name": "a", "port": 1}]}});
        assert_eq!(patch("Service", &actual, &desired).unwrap(), desired);
        let without_ports = json!({"spec": {"publishNotReadyAddresses": true}});
        assert_eq!(
            patch("Service", &actual, &without_ports).unwrap(),
            json!({"spec": {"publishNotReadyAddresses": true, "ports": null}})
        );
    }

    #[test]
    fn unwanted_field_is_removed() {
        let member = |resources: Value| json!({"spec": {"groups": [{"name": "worker", "resources": resources}]}});
        let actual = member(json!({"cpu": "1", "nvidia.com/gpu": 8}));
        let desired = member(json!({"cpu": "1"}));
        assert_eq!(patch("PodGroup", &actual, &desired).unwrap(), desired);
    }

    #[test]
    fn config_map_data_is_replaced_as_a_whole() {
        let config_map = |data: Value| json!({"metadata": {"name": "j-hosts"}, "data": data});
        let desired = config_map(json!({"hostfile": "a\n"}));
        assert_eq!(patch("ConfigMap", &desired, &desired), None);
        let put_right = json!({"data": {"hostfile": "a\n", "more": null}});
        for (actual, change) in [
            (
                config_map(json!({"hostfile": "b\n", "more": "c"})),
                put_right,
            ),
            (
                config_map(Value::Null),
                json!({"data": {"hostfile": "a\n"}}),
            ),
            (
                json!({"metadata": {"name": "j-hosts"}}),
                json!({"data": {"hostfile": "a\n"}}),
            ),
        ] {
            assert_eq!(
                patch("ConfigMap", &actual, &desired),
                Some(change),
                "{actual}"
            );
        }
    }

    #[test]
    fn changed_network_policy_selector_or_egress_is_drift() {
        let spec = |selector: Value, egress: Value| json!({"spec": {"podSelector": selector, "policyTypes": ["Ingress", "Egress"], "egress": egress}});
        let selector = json!({"matchLabels": {"job": "1"}});
        let peer = json!([{"to": [{"podSelector": selector}]}]);
        let desired = spec(selector.clone(), peer.clone());
        let narrowed = json!({"matchLabels": {"job": "1", "no": "pod"}});
        assert_eq!(
            patch("NetworkPolicy", &spec(narrowed, peer.clone()), &desired).unwrap(),
            json!({"spec": {"podSelector": {"matchLabels": {"no": null}}}})
        );
        let except = json!([{"to": [{"podSelector": selector, "namespaceSelector": {"matchLabels": {"a": "b"}}}]}]);
        for opened in [
            json!([{}]),
            json!([{"to": peer[0]["to"]}, {}]),
            except,
            json!([]),
        ] {
            let drift = patch(
                "NetworkPolicy",
                &spec(selector.clone(), opened.clone()),
                &desired,
            );
            assert_eq!(drift, Some(json!({"spec": {"egress": peer}})), "{opened}");
        }
    }

    #[test]
    fn missing_label_is_restored_and_foreign_labels_stay() {
        let desired = json!({"metadata": {"labels": {"ours": "1"}}, "spec": {}});
        let actual = json!({"metadata": {"labels": {"theirs": "2"}}, "spec": {}});
        assert_eq!(
            patch("NetworkPolicy", &actual, &desired).unwrap(),
            json!({"metadata": {"labels": {"ours": "1"}}})
        );
    }
}
