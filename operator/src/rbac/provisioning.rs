//! The additional rights that the operator needs to ask autoscalers for nodes.

use super::{RuleRow, render_binding, render_file, render_role, render_rules};

/// Placeholder pods come from Jobs. The ClusterRole permits the operator to write their conditions.
const PLACEHOLDER_RULES: &[RuleRow] =
    &[("batch", &["jobs"], &["list", "create", "deletecollection"])];

/// ProvisioningRequests are in the namespaces of their jobs, with the PodTemplates that they name.
const REQUEST_RULES: &[RuleRow] = &[
    (
        "autoscaling.x-k8s.io",
        &["provisioningrequests"],
        &["list", "create", "delete", "deletecollection"],
    ),
    (
        "",
        &["podtemplates"],
        &["list", "create", "deletecollection"],
    ),
];

/// Renders charts/trellis/files/rbac-provisioning.yaml.
/// The chart replaces NAMESPACE with the namespace of placeholder pods.
#[must_use]
pub fn render_provisioning_rbac() -> String {
    let (name, there) = ("trellis-placeholders", Some("NAMESPACE"));
    let requests = "trellis-provisioning-requests";
    let rules = |rules| render_rules(rules, None);
    render_file(&[
        render_role("Role", name, there, &rules(PLACEHOLDER_RULES)),
        render_binding("Role", name, there),
        render_role("ClusterRole", requests, None, &rules(REQUEST_RULES)),
        render_binding("ClusterRole", requests, None),
    ])
}
