//! What the operator may do beside the rest to serve the API group `visibility.trellis.dev`.

use super::{ACCOUNT, NAMESPACE, Row, binding, file, role, rules};

/// Its name.
const NAME: &str = "trellis-visibility";

/// Its own pod is labelled while it leads, and those of leaders before it are no longer. It reads pods
/// anyway.
const NAMESPACED: &[Row] = &[("", &["pods"], &["patch"])];

/// charts/trellis/files/rbac-visibility.yaml: what it may do for that.
#[must_use]
pub fn visibility() -> String {
    let here = Some(NAMESPACE);
    // Kubernetes' own role: it reads the one ConfigMap that says whom the API server asks as.
    let reader = "extension-apiserver-authentication-reader";
    let reads = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {reader}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {ACCOUNT}, namespace: {NAMESPACE}}}\n"
    );
    file(&[
        role("Role", NAME, here, &rules(NAMESPACED, None)),
        binding("Role", NAME, here),
        role("RoleBinding", NAME, Some("kube-system"), &reads),
    ])
}
