//! ServiceAccount and DefaultTolerationSeconds.

use serde_json::{Value, json};

use super::AdmissionRequest;
use crate::kind::KindRef;
use crate::object::{fields_mut, items_at, text_at};
use crate::status::Status;

const SERVICE_ACCOUNTS: KindRef = KindRef::new("", "serviceaccounts");

/// Sets the default service account. Tokens are not mounted.
pub(super) fn set_service_account(
    request: &AdmissionRequest<'_>,
    pod: &mut Value,
    requires_account: bool,
) -> Result<(), Status> {
    let spec = fields_mut(pod, "spec");
    let account = spec
        .entry("serviceAccountName")
        .or_insert_with(|| "default".into())
        .clone();
    spec.insert("serviceAccount".to_owned(), account.clone());
    let name = account.as_str().unwrap_or_default();
    let found = request.get(&SERVICE_ACCOUNTS, request.namespace, name);
    if requires_account && found.is_none() {
        let namespace = request.namespace;
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(request.forbid(&why));
    }
    Ok(())
}

/// Lets a pod stay for 5 minutes on a node that is lost.
pub(super) fn add_tolerations(pod: &mut Value) {
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerations = items_at(pod, &["spec", "tolerations"]);
        let is_tolerated = tolerations.iter().any(|toleration| {
            let (other, effect) = (
                text_at(toleration, &["key"]),
                text_at(toleration, &["effect"]),
            );
            (other == key || other.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !is_tolerated {
            let toleration = json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            });
            let spec = fields_mut(pod, "spec");
            let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
            if let Some(tolerations) = tolerations.as_array_mut() {
                tolerations.push(toleration);
            }
        }
    }
}
