//! The additional rights that the operator needs to ask autoscalers for nodes.

use super::{RuleRow, render_binding, render_file, render_role, render_rules};

/// Placeholder pods come from Jobs. The ClusterRole permits the operator to write their conditions.
const PLACEHOLDER_RULES: &[RuleRow] =
    &[("batch", &["jobs"], &["list", "create", "deletecollection"])];

/// Renders charts/trellis/files/rbac-placeholders.yaml.
/// The chart replaces NAMESPACE with the namespace of placeholder pods.
#[must_use]
pub fn render_placeholder_rbac() -> String {
    let (name, there) = ("trellis-placeholders", Some("NAMESPACE"));
    render_file(&[
        render_role("Role", name, there, &render_rules(PLACEHOLDER_RULES, None)),
        render_binding("Role", name, there),
    ])
}
