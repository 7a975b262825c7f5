//! Differences between a child and its desired state. Pure.

use serde_json::{Map, Value};

/// The merge patch (RFC 7386) that brings a child to its desired state. None: there is no
/// difference. In metadata, additions of other writers stay. The spec is owned as a whole: unwanted
/// fields are removed, except for defaults of the API server. Lists are replaced as a whole,
/// because a merge by key would keep unwanted items.
pub(super) fn drift_patch(
    kind: &str,
    actual: &Value,
    wanted: &Value,
) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for (part, extra) in [
        ("metadata", ExtraKeys::Keep),
        ("spec", ExtraKeys::Remove(defaulted_fields(kind))),
        ("data", ExtraKeys::Remove(&[])),
    ] {
        let Some(wanted) = wanted.get(part) else {
            continue;
        };
        let actual = actual.get(part).unwrap_or(&Value::Null);
        if let Some(change) = diff_value(actual, wanted, extra) {
            patch.insert(part.to_owned(), change);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

/// Treatment of a key that exists and is not wanted.
#[derive(Clone, Copy)]
enum ExtraKeys {
    Keep,
    /// Removed, unless it is one of these.
    Remove(&'static [&'static str]),
}

/// Fields of a spec that the API server sets by default (`pkg/apis/core/v1/defaults.go`).
/// NetworkPolicies and PodGroups are written with all of them.
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

fn diff_value(actual: &Value, wanted: &Value, extra: ExtraKeys) -> Option<Value> {
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => {
            let patch = diff_object(actual, wanted, extra);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (Value::Array(actual), Value::Array(wanted)) => {
            let same = actual.len() == wanted.len()
                && actual
                    .iter()
                    .zip(wanted)
                    .all(|(a, w)| diff_value(a, w, extra).is_none());
            (!same).then(|| Value::Array(wanted.clone()))
        }
        _ => (actual != wanted).then(|| wanted.clone()),
    }
}

fn diff_object(
    actual: &Map<String, Value>,
    wanted: &Map<String, Value>,
    extra: ExtraKeys,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, wanted) in wanted {
        let change = match actual.get(key) {
            Some(actual) => diff_value(actual, wanted, extra),
            None => (!is_empty(wanted)).then(|| wanted.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    if let ExtraKeys::Remove(but) = extra {
        let unwanted = actual.iter().filter(|(key, value)| {
            !wanted.contains_key(*key) && !but.contains(&key.as_str()) && !is_empty(value)
        });
        patch.extend(unwanted.map(|(key, _)| (key.clone(), Value::Null)));
    }
    patch
}

/// The API server does not store an empty list or map.
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

    fn patch(kind: &str, actual: &Value, wanted: &Value) -> Option<Value> {
        super::drift_patch(kind, actual, wanted).map(Value::Object)
    }

    #[test]
    fn child_in_its_desired_state_needs_no_patch() {
        let wanted = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "j", "labels": {"a": "1"}},
            "spec": {"clusterIP": "None", "ports": [{"name": "x", "port": 1, "protocol": "TCP"}],
                "selector": {"job": "1"}, "none": []}});
        let actual = json!({
            "metadata": {"name": "j", "uid": "u", "labels": {"a": "1", "theirs": "2"}, "annotations": {"b": "c"}},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
                "ports": [{"name": "x", "port": 1, "protocol": "TCP", "targetPort": 1}],
                "selector": {"job": "1"}, "externalIPs": []}});
        assert_eq!(patch("Service", &actual, &wanted), None);
    }

    #[test]
    fn lists_are_replaced_as_a_whole() {
        let actual =
            json!({"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
        let wanted = json!({"spec": {"ports": [{"name": "a", "port": 1}]}});
        assert_eq!(patch("Service", &actual, &wanted).unwrap(), wanted);
        let none = json!({"spec": {"publishNotReadyAddresses": true}});
        assert_eq!(
            patch("Service", &actual, &none).unwrap(),
            json!({"spec": {"publishNotReadyAddresses": true, "ports": null}})
        );
    }

    #[test]
    fn unwanted_field_is_removed() {
        let member = |resources: Value| json!({"spec": {"groups": [{"name": "worker", "resources": resources}]}});
        let actual = member(json!({"cpu": "1", "nvidia.com/gpu": 8}));
        let wanted = member(json!({"cpu": "1"}));
        assert_eq!(patch("PodGroup", &actual, &wanted).unwrap(), wanted);
    }

    #[test]
    fn config_map_data_is_replaced_as_a_whole() {
        let of = |data: Value| json!({"metadata": {"name": "j-hosts"}, "data": data});
        let wanted = of(json!({"hostfile": "a\n"}));
        assert_eq!(patch("ConfigMap", &wanted, &wanted), None);
        let put_right = json!({"data": {"hostfile": "a\n", "more": null}});
        for (actual, change) in [
            (of(json!({"hostfile": "b\n", "more": "c"})), put_right),
            (of(Value::Null), json!({"data": {"hostfile": "a\n"}})),
            (
                json!({"metadata": {"name": "j-hosts"}}),
                json!({"data": {"hostfile": "a\n"}}),
            ),
        ] {
            assert_eq!(
                patch("ConfigMap", &actual, &wanted),
                Some(change),
                "{actual}"
            );
        }
    }

    #[test]
    fn changed_network_policy_selector_or_egress_is_drift() {
        let spec = |selector: Value, egress: Value| json!({"spec": {"podSelector": selector, "policyTypes": ["Ingress", "Egress"], "egress": egress}});
        let own = json!({"matchLabels": {"job": "1"}});
        let peer = json!([{"to": [{"podSelector": own}]}]);
        let wanted = spec(own.clone(), peer.clone());
        let narrowed = json!({"matchLabels": {"job": "1", "no": "pod"}});
        assert_eq!(
            patch("NetworkPolicy", &spec(narrowed, peer.clone()), &wanted).unwrap(),
            json!({"spec": {"podSelector": {"matchLabels": {"no": null}}}})
        );
        let except = json!([{"to": [{"podSelector": own, "namespaceSelector": {"matchLabels": {"a": "b"}}}]}]);
        for opened in [
            json!([{}]),
            json!([{"to": peer[0]["to"]}, {}]),
            except,
            json!([]),
        ] {
            let now = patch("NetworkPolicy", &spec(own.clone(), opened.clone()), &wanted);
            assert_eq!(now, Some(json!({"spec": {"egress": peer}})), "{opened}");
        }
    }

    #[test]
    fn missing_label_is_restored_and_foreign_labels_stay() {
        let wanted = json!({"metadata": {"labels": {"ours": "1"}}, "spec": {}});
        let actual = json!({"metadata": {"labels": {"theirs": "2"}}, "spec": {}});
        assert_eq!(
            patch("NetworkPolicy", &actual, &wanted).unwrap(),
            json!({"metadata": {"labels": {"ours": "1"}}})
        );
    }
}
