//! Tests of the control plane that all other tests use.

mod access;
mod components;
mod controllers;
mod failures;
mod leftovers;
mod nodes;
mod pod_logs;
mod pods;
mod proxy;
mod proxy_watches;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};

/// Longest time of each part of the control plane on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A CRD for the test of the garbage collector.
const WIDGET_CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.trellis.dev}
spec:
  group: test.trellis.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
";

async fn shared_control_plane() -> &'static ControlPlane {
    let options = || ControlPlaneOptions {
        manifests: vec![WIDGET_CRD.to_owned()],
        ..ControlPlaneOptions::default()
    };
    ControlPlane::shared_with(options).await.unwrap()
}

/// Returns a pod on `node` with `annotations`.
fn pod_on_node(name: &str, node: &str, annotations: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    });
    serde_json::from_value(pod).unwrap()
}

fn pod_phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}
