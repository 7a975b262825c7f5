//! Failures of simulated pods and nodes. A user of the demo requests them by a label of a job's
//! pods.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::binaries::KubernetesVersion;
use crate::cluster::NodeSet;
use crate::control_plane::ControlPlane;
use crate::kubelet;

/// The label with the failure, in `spec.podMetadata.labels` of a job. Policies would have to permit
/// an annotation.
pub const FAIL: &str = "demo.example.com/fail";
/// The image cannot be pulled.
pub const IMAGE_PULL: &str = "ImagePull";
/// A Secret that the pod names is missing.
pub const MISSING_SECRET: &str = "MissingSecret";
/// The kubelet of one node dies and starts again later.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// The Node object of one node is deleted.
pub const NODE_LOST: &str = "NodeLost";

/// Time until a dead kubelet starts again.
const KUBELET_OUTAGE: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Instructions for the user.
#[must_use]
pub fn usage() -> String {
    format!(
        "failures: spec.podMetadata.labels {{{FAIL}: X}} of a job, where X is {IMAGE_PULL}, {MISSING_SECRET}, {NODE_NOT_READY} (for {} s) or {NODE_LOST}",
        KUBELET_OUTAGE.as_secs()
    )
}

/// Makes the simulated kubelets fail pods with the label: an admission policy converts the label
/// into annotations for [`kubelet`].
///
/// # Errors
/// If the API server refuses the policy.
pub async fn install(control_plane: &ControlPlane) -> Result<()> {
    let requested = format!("object.metadata.?labels[?'{FAIL}'].orValue('')");
    let pull = "'Back-off pulling image \"' + object.spec.containers[0].image + '\": not found (simulated)'";
    let expression = format!(
        "Object{{metadata: Object.metadata{{annotations: {{\
         '{hang}': 'true', \
         '{reason}': {requested} == '{IMAGE_PULL}' ? 'ImagePullBackOff' : 'CreateContainerConfigError', \
         '{message}': {requested} == '{IMAGE_PULL}' ? {pull} : 'a Secret that the pod names is not found (simulated)'\
         }}}}}}",
        hang = kubelet::HANG,
        reason = kubelet::HANG_REASON,
        message = kubelet::HANG_MESSAGE,
    );
    let name = "demo-failures";
    let version = KubernetesVersion::chosen()?.mutating_policy_api();
    let version = format!("admissionregistration.k8s.io/{version}");
    let policy = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
            "matchConditions": [{"name": "asks",
                "expression": format!("{requested} in ['{IMAGE_PULL}', '{MISSING_SECRET}']")}],
            "mutations": [{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": expression}}],
        },
    });
    let binding = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name},
    });
    for object in [policy, binding] {
        control_plane.apply_yaml(&object.to_string()).await?;
    }
    Ok(())
}

/// Fails one node of each job that requests it, once, and reports it. Runs until the future is
/// dropped.
pub async fn fail_requested_nodes(
    control_plane: &ControlPlane,
    nodes: &NodeSet,
    say: impl Fn(&str),
) {
    let pods: Api<Pod> = Api::all(control_plane.client());
    let job_pods = ListParams::default().labels("trellis.dev/job");
    let mut failed = BTreeSet::new();
    let mut fails = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            Some(()) = fails.next() => continue,
        }
        let Ok(list) = pods.list(&job_pods).await else {
            continue;
        };
        for pod in list.items {
            if let Some((node, how)) = requested_node_failure(&pod)
                && nodes.names().contains(&node)
                && failed.insert(job_key(&pod))
            {
                say(&format!("{how} of node {node}, as {} asks", pod.name_any()));
                let say = &say;
                fails.push(async move {
                    if let Err(error) = fail_node(nodes, &node, how).await {
                        say(&format!("node {node}: {error:#}"));
                    }
                });
            }
        }
    }
}

/// Returns the node of a running pod, and the requested failure of the node.
fn requested_node_failure(pod: &Pod) -> Option<(String, &'static str)> {
    let requested = pod.labels().get(FAIL)?;
    let how = [NODE_NOT_READY, NODE_LOST]
        .into_iter()
        .find(|how| how == requested)?;
    let phase = pod.status.as_ref()?.phase.as_deref()?;
    let node = pod.spec.as_ref()?.node_name.clone()?;
    (phase == "Running").then_some((node, how))
}

/// Returns the job of a pod.
fn job_key(pod: &Pod) -> (String, String) {
    let job = pod.labels().get("trellis.dev/job").cloned();
    (pod.namespace().unwrap_or_default(), job.unwrap_or_default())
}

async fn fail_node(nodes: &NodeSet, node: &str, how: &str) -> Result<()> {
    if how == NODE_LOST {
        return nodes.delete(node).await;
    }
    nodes.kill_kubelet(node).await?;
    tokio::time::sleep(KUBELET_OUTAGE).await;
    nodes.restore_kubelet(node).await
}
