//! Checks that the API server serves the operator from the operator's own priority level. Each
//! response names the FlowSchema that matched the request.

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::Api;
use kube::client::Body;
use serde_json::{Value, json};
use trellis_api::LEADER_TERM_NAME;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::helm::Helm;
use trellis_e2e::operator::{LEASE_NAME, NAMESPACE, SERVICE_ACCOUNT};
use trellis_e2e::wait::eventually;

/// The header, as of [API Priority and Fairness][1].
///
/// [1]: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#diagnostics
const FLOW_SCHEMA_HEADER: &str = "X-Kubernetes-PF-FlowSchema-UID";

/// Longest time until the API server has read FlowSchemas.
const FLOW_SCHEMA_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Tests two namespaces, because built-in FlowSchemas match the ServiceAccounts of kube-system.
pub(crate) async fn test_priority_level(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    for namespace in [NAMESPACE, "kube-system"] {
        for object in helm.render_for_cluster(namespace, &json!({}))? {
            let kind = object["kind"].as_str().unwrap_or_default();
            let is_needed = kind == "FlowSchema" || kind == "PriorityLevelConfiguration";
            if is_needed {
                control_plane.apply_yaml(&object.to_string()).await?;
            }
        }
        check_operator_requests(&control_plane, namespace)
            .await
            .with_context(|| format!("in {namespace}"))?;
    }
    Ok(())
}

async fn check_operator_requests(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    for (kind, name) in [
        ("Namespace", namespace),
        ("ServiceAccount", SERVICE_ACCOUNT),
    ] {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        if kind == "ServiceAccount" {
            object["metadata"]["namespace"] = Value::from(namespace);
        }
        control_plane.apply_yaml(&object.to_string()).await?;
    }
    let client = control_plane
        .service_account_client(namespace, SERVICE_ACCOUNT)
        .await?;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = format!("{leases}/{LEASE_NAME}");
    let term =
        format!("/apis/trellis.dev/v1alpha1/namespaces/{namespace}/leaderterms/{LEADER_TERM_NAME}");
    let schemas: Api<FlowSchema> = Api::all(control_plane.client());
    // The response names the FlowSchema even if RBAC forbids the request.
    for (method, path, name) in [
        ("GET", "/api/v1/pods", "trellis-operator"),
        ("GET", "/api/v1/namespaces/default/pods", "trellis-operator"),
        ("GET", "/version", "trellis-operator"),
        ("GET", &lease, "trellis-operator-lease"),
        ("PUT", &lease, "trellis-operator-lease"),
        ("PUT", &term, "trellis-operator-lease"),
        ("POST", &leases, "trellis-operator-lease"),
        ("GET", &leases, "trellis-operator"),
    ] {
        let schema = schemas.get(name).await?;
        let expected = schema.metadata.uid.context("no uid")?;
        eventually(FLOW_SCHEMA_TIMEOUT, async || {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Body::from(Vec::new()))?;
            let answer = client.send(request).await?;
            let schema_uid = answer
                .headers()
                .get(FLOW_SCHEMA_HEADER)
                .context("the response names no FlowSchema")?;
            let schema_uid = schema_uid.to_str()?;
            let all = schemas.list(&Default::default()).await?.items;
            let mut matching = all
                .iter()
                .filter(|candidate| candidate.metadata.uid.as_deref() == Some(schema_uid));
            let named = matching
                .next()
                .and_then(|candidate| candidate.metadata.name.as_deref());
            ensure!(schema_uid == expected, "{method} {path} matched {named:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
