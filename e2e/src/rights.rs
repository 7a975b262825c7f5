//! Rights of RBAC. The API server watches roles, so a new role takes effect late.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::wait::eventually;

/// Longest time until a new role takes effect.
const RIGHT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the user of `client` has the right to `verb` a resource of an API group in a
/// namespace. Without a namespace, the right must apply to all namespaces.
///
/// # Errors
/// If this takes too long.
pub async fn wait_until_allowed(
    client: &Client,
    verb: &str,
    (group, resource): (&str, &str),
    namespace: Option<&str>,
) -> Result<()> {
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {
            "verb": verb, "group": group, "resource": resource,
            "namespace": namespace.unwrap_or_default(),
        }},
    }))?;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    eventually(RIGHT_TIMEOUT, || async {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        ensure!(is_allowed, "no right to {verb} {resource} of {group:?} yet");
        Ok(())
    })
    .await
}
