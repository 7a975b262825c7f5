//! The additional rights that the operator needs to maintain its own certificates.
//! The operator has none of these rights if another program issues the certificates.

use trellis_api::visibility::API_SERVICE;

use super::{NAMESPACE, RuleRow, render_binding, render_file, render_role, render_rules};

/// The Secret that holds the certificate.
const SECRET_RULES: &[RuleRow] = &[("", &["secrets"], &["get", "update"])];

/// Renders charts/trellis/files/rbac-webhook.yaml, for the webhook's certificate.
#[must_use]
pub fn render_webhook_rbac() -> String {
    let told = [(
        "admissionregistration.k8s.io",
        &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ][..],
        &["get", "patch"][..],
    )];
    let name = trellis_server::webhook::NAME;
    render_certificate_role(name, &told, name)
}

/// Renders charts/trellis/files/rbac-endpoint.yaml, for the endpoint's certificate.
/// The endpoint needs it to serve `visibility.trellis.dev`.
#[must_use]
pub fn render_endpoint_rbac() -> String {
    let told = [(
        "apiregistration.k8s.io",
        &["apiservices"][..],
        &["get", "patch"][..],
    )];
    render_certificate_role("trellis-endpoint", &told, API_SERVICE)
}

/// Grants access to the Secret `name` and to the object with the CA bundle.
fn render_certificate_role(name: &str, told: &[RuleRow], object: &str) -> String {
    let here = Some(NAMESPACE);
    render_file(&[
        render_role("ClusterRole", name, None, &render_rules(told, Some(object))),
        render_binding("ClusterRole", name, None),
        render_role("Role", name, here, &render_rules(SECRET_RULES, Some(name))),
        render_binding("Role", name, here),
    ])
}
