//! What the operator may do beside the rest to serve the API group `visibility.trellis.dev`.

use trellis_api::visibility::API_SERVICE;

use super::{ACCOUNT, NAMESPACE, Row, add_rules, binding, file, role, rules};

/// Its name.
const NAME: &str = "trellis-visibility";

/// Whom API servers are to trust is written there.
const CLUSTER: &[Row] = &[(
    "apiregistration.k8s.io",
    &["apiservices"],
    &["get", "patch"],
)];

/// Its own pod is labelled while it leads, and those of leaders before it are no longer.
const NAMESPACED: &[Row] = &[("", &["pods"], &["get", "list", "patch"])];

/// Where its certificate is kept.
const CERTIFICATE: &[Row] = &[("", &["secrets"], &["get", "update"])];

/// charts/trellis/files/rbac-visibility.yaml: what it may do for that.
#[must_use]
pub fn visibility() -> String {
    let mut namespaced = rules(NAMESPACED, None);
    add_rules(CERTIFICATE, Some("trellis-endpoint"), &mut namespaced);
    let here = Some(NAMESPACE);
    // Kubernetes' own role: it reads the one ConfigMap that says whom the API server asks as.
    let reader = "extension-apiserver-authentication-reader";
    let reads = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {reader}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {ACCOUNT}, namespace: {NAMESPACE}}}\n"
    );
    file(&[
        role(
            "ClusterRole",
            NAME,
            None,
            &rules(CLUSTER, Some(API_SERVICE)),
        ),
        binding("ClusterRole", NAME, None),
        role("Role", NAME, here, &namespaced),
        binding("Role", NAME, here),
        role("RoleBinding", NAME, Some("kube-system"), &reads),
    ])
}
