//! Binds external pods, and writes their conditions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Unit;
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request as KubeRequest;
use serde::de::IgnoredAny;
use serde_json::json;
use trellis_api::names;
use trellis_gang::observed::BindingAnnotations;
use trellis_machine::clock;

use super::{Commands, WriteError};

/// The reason of kube-scheduler's condition PodScheduled, which cluster autoscalers look for.
pub(crate) const UNSCHEDULABLE: &str = "Unschedulable";

impl Commands {
    /// Binds one incarnation of a pod to a node, and annotates it with `by`. With a version, the
    /// API server refuses if the pod has changed since.
    ///
    /// # Errors
    /// See [`WriteError`]. `Conflict` if the pod has another uid, has changed since that version,
    /// is being deleted, has scheduling gates, or is bound.
    pub(crate) async fn bind_pod(
        &self,
        namespace: &str,
        name: &str,
        (uid, version): (&str, Option<&str>),
        node: &str,
        by: BindingAnnotations<'_>,
    ) -> Result<(), WriteError> {
        let params = PostParams {
            dry_run: false,
            field_manager: Some(names::SCHEDULER_MANAGER.to_owned()),
        };
        let mut annotations = BTreeMap::from([
            (names::PLAN, by.plan.to_owned()),
            (names::PLACED_IN, by.queue.to_owned()),
        ]);
        if let Some(group) = by.placed_with {
            annotations.insert(names::PLACED_WITH, group.to_owned());
        }
        if !by.flavors.is_empty() {
            annotations.insert(names::FLAVORS, json!(by.flavors).to_string());
        }
        // `BindingREST.Create` of the API server takes uid and resourceVersion as preconditions.
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version,
                "annotations": annotations,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let request = KubeRequest::new(Pod::url_path(&(), Some(namespace))).create_subresource(
            "binding",
            name,
            &params,
            body.to_string().into_bytes(),
        );
        let answer = async {
            let IgnoredAny = self.send_request(request).await?;
            Ok(())
        };
        self.write(namespace, answer).await
    }

    /// Writes the condition by which autoscalers find an unschedulable pod, if the pod still has
    /// this version. Other conditions stay.
    ///
    /// # Errors
    /// See [`WriteError`]. `Conflict` if the pod has changed since.
    pub async fn set_unschedulable(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        message: &str,
    ) -> Result<(), WriteError> {
        let now = clock::now();
        let now = now.round(Unit::Second).unwrap_or(now);
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": message,
            "lastTransitionTime": now.to_string(),
        });
        let params = PatchParams {
            field_manager: Some(names::SCHEDULER_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}});
        let request = KubeRequest::new(Pod::url_path(&(), Some(namespace))).patch_subresource(
            "status",
            name,
            &params,
            &Patch::Strategic(patch),
        );
        let answer = async {
            let IgnoredAny = self.send_request(request).await?;
            Ok(())
        };
        self.write(namespace, answer).await
    }
}
