//! Label selectors, as Kubernetes evaluates them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// True if the selector selects what bears these labels.
///
/// Absent selects nothing, `{}` everything; otherwise every label and every
/// expression must hold (`metav1.LabelSelectorAsSelector`). A selector that
/// Kubernetes would call invalid, by an unknown operator or by values where
/// there must be none or none where there must be some, selects nothing.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
/// use trellis_policies::selects;
/// let labels = Default::default();
/// assert!(!selects(None, &labels));
/// assert!(selects(Some(&LabelSelector::default()), &labels));
/// ```
#[must_use]
pub fn selects(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    selector.is_some_and(|selector| {
        let wanted = selector.match_labels.iter().flatten();
        let expressions = selector.match_expressions.iter().flatten();
        wanted
            .into_iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && expressions
                .into_iter()
                .all(|e| matches_expression(e, labels))
    })
}

/// True if Kubernetes would take the selector: [`selects`] holds nothing for one
/// that it would not.
pub(crate) fn is_valid(selector: &LabelSelector) -> bool {
    selector.match_expressions.iter().flatten().all(|e| {
        let some = e.values.as_ref().is_some_and(|values| !values.is_empty());
        match e.operator.as_str() {
            "In" | "NotIn" => some,
            "Exists" | "DoesNotExist" => !some,
            _ => false,
        }
    })
}

fn matches_expression(
    expression: &LabelSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> bool {
    let value = labels.get(&expression.key);
    let values = expression.values.as_deref().unwrap_or_default();
    match expression.operator.as_str() {
        "In" => value.is_some_and(|v| values.contains(v)),
        // NotIn also selects objects without the label.
        "NotIn" => !values.is_empty() && value.is_none_or(|v| !values.contains(v)),
        "Exists" => values.is_empty() && value.is_some(),
        "DoesNotExist" => values.is_empty() && value.is_none(),
        _ => false,
    }
}
