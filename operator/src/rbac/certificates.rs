//! What the operator may do beside the rest to keep certificates of its own: where somebody else
//! makes them, it has none of these rights.

use trellis_api::visibility::API_SERVICE;

use super::{NAMESPACE, RuleRow, render_binding, render_file, render_role, render_rules};

/// Where a certificate is kept.
const SECRET_RULES: &[RuleRow] = &[("", &["secrets"], &["get", "update"])];

/// charts/trellis/files/rbac-webhook.yaml: for the certificate of the webhook.
#[must_use]
pub fn render_webhook_rbac() -> String {
    let told = [(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations"][..],
        &["get", "patch"][..],
    )];
    let name = trellis_server::webhook::NAME;
    render_certificate_role(name, &told, name)
}

/// charts/trellis/files/rbac-endpoint.yaml: for the certificate of the endpoint, where it serves
/// `visibility.trellis.dev`.
#[must_use]
pub fn render_endpoint_rbac() -> String {
    let told = [(
        "apiregistration.k8s.io",
        &["apiservices"][..],
        &["get", "patch"][..],
    )];
    render_certificate_role("trellis-endpoint", &told, API_SERVICE)
}

/// A Secret of that name, and where API servers are told whom to trust.
fn render_certificate_role(name: &str, told: &[RuleRow], object: &str) -> String {
    let here = Some(NAMESPACE);
    render_file(&[
        render_role("ClusterRole", name, None, &render_rules(told, Some(object))),
        render_binding("ClusterRole", name, None),
        render_role("Role", name, here, &render_rules(SECRET_RULES, Some(name))),
        render_binding("Role", name, here),
    ])
}
