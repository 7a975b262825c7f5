//! What the operator may do beside the rest to serve the API group `visibility.trellis.dev`.

use super::{
    NAMESPACE, RuleRow, SERVICE_ACCOUNT, render_binding, render_file, render_role, render_rules,
};

/// Its name.
const NAME: &str = "trellis-visibility";

/// Its own pod is labelled while it leads, and those of leaders before it are no longer. It reads
/// pods anyway.
const NAMESPACED: &[RuleRow] = &[("", &["pods"], &["patch"])];

/// charts/trellis/files/rbac-visibility.yaml: what it may do for that.
#[must_use]
pub fn render_visibility_rbac() -> String {
    let here = Some(NAMESPACE);
    // Kubernetes' own role: it reads the one ConfigMap that says whom the API server asks as.
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
