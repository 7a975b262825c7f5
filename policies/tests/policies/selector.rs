//! Label selectors, case by case.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, from_value, json};
use trellis_policies::selects;

#[test]
fn selector_matches_the_labels_that_kubernetes_matches() {
    let labels = BTreeMap::from([
        ("team".to_owned(), "a".to_owned()),
        ("tier".to_owned(), String::new()),
    ]);
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let cases = [
        (json!({}), true),
        (json!({"matchLabels": {}}), true),
        (json!({"matchExpressions": []}), true),
        (json!({"matchLabels": {"team": "a"}}), true),
        (json!({"matchLabels": {"team": "b"}}), false),
        (json!({"matchLabels": {"zone": "a"}}), false),
        (json!({"matchLabels": {"tier": ""}}), true),
        // An absent label is not an empty one.
        (json!({"matchLabels": {"zone": ""}}), false),
        (json!({"matchLabels": {"team": "a", "tier": "x"}}), false),
        (expression("team", "In", json!(["b", "a"])), true),
        (expression("team", "In", json!(["b"])), false),
        (expression("zone", "In", json!([""])), false),
        (expression("team", "NotIn", json!(["b"])), true),
        (expression("team", "NotIn", json!(["b", "a"])), false),
        (expression("zone", "NotIn", json!(["a"])), true),
        (expression("team", "Exists", json!(null)), true),
        (expression("tier", "Exists", json!([])), true),
        (expression("zone", "Exists", json!(null)), false),
        (expression("zone", "DoesNotExist", json!(null)), true),
        (expression("team", "DoesNotExist", json!(null)), false),
        // An expression that Kubernetes rejects as invalid selects nothing.
        (expression("team", "In", json!([])), false),
        (expression("team", "NotIn", json!([])), false),
        (expression("zone", "NotIn", json!(null)), false),
        (expression("team", "Exists", json!(["a"])), false),
        (expression("zone", "DoesNotExist", json!(["a"])), false),
        (expression("team", "in", json!(["a"])), false),
        (expression("team", "Gt", json!(["0"])), false),
        // All requirements must match.
        (
            json!({"matchLabels": {"team": "a"}, "matchExpressions": [
                {"key": "team", "operator": "Exists"}, {"key": "zone", "operator": "DoesNotExist"}]}),
            true,
        ),
        (
            json!({"matchLabels": {"team": "a"}, "matchExpressions": [
                {"key": "team", "operator": "Exists"}, {"key": "zone", "operator": "Exists"}]}),
            false,
        ),
        (
            json!({"matchLabels": {"team": "b"}, "matchExpressions": [
                {"key": "team", "operator": "Exists"}]}),
            false,
        ),
    ];
    for (selector, expected) in cases {
        let decoded: LabelSelector = from_value(selector.clone()).unwrap();
        assert_eq!(selects(Some(&decoded), &labels), expected, "{selector}");
    }
    assert!(!selects(None, &labels));
}
