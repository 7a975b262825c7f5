//! The additional rights that the operator needs to ask autoscalers for nodes.

use super::{RuleRow, render_binding, render_file, render_role, render_rule_rows, render_rules};

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

/// The operator checks the settings of autoscalers.
const CHECK_RULES: &[RuleRow] = &[("karpenter.sh", &["nodepools"], &["list"])];

/// The Lease of Cluster Autoscaler, in any namespace, names the pod whose flags the operator checks.
const LEASE: &str = "cluster-autoscaler";
const LEASE_RULES: &[RuleRow] = &[("coordination.k8s.io", &["leases"], &["list"])];

/// Renders charts/trellis/files/rbac-provisioning.yaml.
/// The chart replaces NAMESPACE with the namespace of placeholder pods.
#[must_use]
pub fn render_provisioning_rbac() -> String {
    let (name, there) = ("trellis-placeholders", Some("NAMESPACE"));
    let cluster = "trellis-provisioning";
    let cluster_rules = render_rules(&[REQUEST_RULES, CHECK_RULES].concat(), None)
        + &render_rule_rows(LEASE_RULES, Some(LEASE));
    render_file(&[
        render_role("Role", name, there, &render_rules(PLACEHOLDER_RULES, None)),
        render_binding("Role", name, there),
        render_role("ClusterRole", cluster, None, &cluster_rules),
        render_binding("ClusterRole", cluster, None),
    ])
}
