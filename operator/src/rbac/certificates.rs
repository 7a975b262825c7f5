//! What the operator may do beside the rest to keep certificates of its own: where somebody else
//! makes them, it has none of these rights.

use trellis_api::visibility::API_SERVICE;

use super::{NAMESPACE, Row, binding, file, role, rules};

/// Where a certificate is kept.
const KEPT: &[Row] = &[("", &["secrets"], &["get", "update"])];

/// charts/trellis/files/rbac-webhook.yaml: for the certificate of the webhook.
#[must_use]
pub fn webhook() -> String {
    let told = [(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations"][..],
        &["get", "patch"][..],
    )];
    let name = trellis_server::webhook::NAME;
    keeps(name, &told, name)
}

/// charts/trellis/files/rbac-endpoint.yaml: for the certificate of the endpoint, where it serves
/// `visibility.trellis.dev`.
#[must_use]
pub fn endpoint() -> String {
    let told = [(
        "apiregistration.k8s.io",
        &["apiservices"][..],
        &["get", "patch"][..],
    )];
    keeps("trellis-endpoint", &told, API_SERVICE)
}

/// A Secret of that name, and where API servers are told whom to trust.
fn keeps(name: &str, told: &[Row], object: &str) -> String {
    let here = Some(NAMESPACE);
    file(&[
        role("ClusterRole", name, None, &rules(told, Some(object))),
        binding("ClusterRole", name, None),
        role("Role", name, here, &rules(KEPT, Some(name))),
        binding("Role", name, here),
    ])
}
