//! The additional rights that the operator needs to serve `visibility.trellis.dev`.

use super::{
    NAMESPACE, RuleRow, SERVICE_ACCOUNT, render_binding, render_file, render_role, render_rules,
};

const NAME: &str = "trellis-visibility";

/// The leader labels its own pod, and removes the label from other pods.
/// The other pods are those of earlier leaders. The operator has the right to read pods from
/// another role.
const NAMESPACED: &[RuleRow] = &[("", &["pods"], &["patch"])];

/// Renders charts/trellis/files/rbac-visibility.yaml.
#[must_use]
pub fn render_visibility_rbac() -> String {
    let here = Some(NAMESPACE);
    // Kubernetes provides this role. It grants read access to the one ConfigMap that names the API
    // server's client identity.
    let reader = "extension-apiserver-authentication-reader";
    let reads = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {reader}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {SERVICE_ACCOUNT}, namespace: {NAMESPACE}}}\n"
    );
    render_file(&[
        render_role("Role", NAME, here, &render_rules(NAMESPACED, None)),
        render_binding("Role", NAME, here),
        render_role("RoleBinding", NAME, Some("kube-system"), &reads),
    ])
}
