//! A pod that a test creates as a dry run, to check whether the API server enforces a new rule.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::wait::eventually;

/// Longest time until the API server enforces a new rule. It reads admission policies once per
/// second.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Name of the pod.
pub(crate) const PROBE_NAME: &str = "trellis-e2e-probe";

/// Creates the pod in the namespace as a dry run, until `acts` accepts the answer.
///
/// # Errors
/// The last error of `acts`, if it accepts no answer within a minute.
pub(crate) async fn probe_until(
    client: Client,
    namespace: &str,
    acts: impl Fn(kube::Result<Pod>) -> Result<()>,
) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    // The rules of tests extend the node selector.
    let probe = serde_json::from_value(json!({
        "metadata": {"name": PROBE_NAME},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "containers": [{"name": "main", "image": "registry.example/probe"}],
        },
    }))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(PROPAGATION_TIMEOUT, || async {
        acts(pods.create(&dry_run, &probe).await)
    })
    .await
}

/// Accepts a refusal that names the rule.
///
/// # Errors
/// Any other answer.
pub(crate) fn accept_refusal_by(rule: &str, error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.message.contains(rule) => Ok(()),
        error => Err(error.into()),
    }
}
