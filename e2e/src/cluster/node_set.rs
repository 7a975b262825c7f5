//! The nodes of a test, and faults on them.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    control_plane::{ControlPlane, KWOK_LABEL},
    site::background,
    wait::{eventually, wait_until_deleted},
};

/// Longest time until nodes are Ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The nodes of one test. They are deleted in the background when this value is dropped, unless a
/// controller has created them.
#[derive(Debug)]
pub struct NodeSet {
    names: Vec<String>,
    /// True if this value deletes the nodes.
    owns_nodes: bool,
    api: Api<Node>,
    config: Config,
}

impl NodeSet {
    pub(super) fn new(names: Vec<String>, control_plane: &ControlPlane) -> Self {
        let api = Api::all(control_plane.client());
        Self {
            names,
            owns_nodes: true,
            api,
            config: control_plane.client_config(),
        }
    }

    /// Returns a set of nodes that a controller creates and deletes.
    pub(crate) fn of_controller(names: Vec<String>, control_plane: Config) -> Result<Self> {
        Ok(Self {
            names,
            owns_nodes: false,
            api: Api::all(Client::try_from(control_plane.clone())?),
            config: control_plane,
        })
    }

    /// The names of the nodes, in the order of the index.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Keeps the nodes when this value is dropped.
    pub fn leak(mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }

    /// Reads one node.
    ///
    /// # Errors
    ///
    /// When it does not exist.
    pub async fn get(&self, name: &str) -> Result<Node> {
        Ok(self.api.get(name).await?)
    }

    /// Waits until every node is Ready and has no taint of an unready node.
    ///
    /// # Errors
    ///
    /// When a node is not Ready after a minute; the error names it.
    pub async fn wait_until_ready(&self) -> Result<()> {
        eventually(READY_TIMEOUT, || async {
            let nodes = self.api.list(&ListParams::default()).await?;
            let ready: BTreeSet<&str> = nodes
                .iter()
                .filter(|node| is_usable(node))
                .filter_map(|node| node.metadata.name.as_deref())
                .collect();
            let missing: Vec<&String> = self
                .names
                .iter()
                .filter(|name| !ready.contains(name.as_str()))
                .collect();
            match missing.first() {
                None => Ok(()),
                Some(first) => bail!(
                    "{} nodes are not ready, \"{first}\" among them",
                    missing.len()
                ),
            }
        })
        .await
    }

    /// Kills the kubelet for good. The node gets `Ready=Unknown`, which the controller manager
    /// would set after its grace period, and the taints for it. Its pods do not change, and deleted
    /// pods stay Terminating.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn kill_kubelet(&self, name: &str) -> Result<()> {
        self.detach_kubelet(name).await?;
        self.set_condition(name, "Ready", "Unknown", "NodeStatusUnknown")
            .await
    }

    /// Stops the kubelet silently. The last condition of the node stays until the controller
    /// manager's grace period is over.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn detach_kubelet(&self, name: &str) -> Result<()> {
        self.patch(name, json!({"metadata": {"labels": {KWOK_LABEL.0: null}}}))
            .await
    }

    /// Starts the kubelet again. The node becomes Ready, and its pods keep running.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn restore_kubelet(&self, name: &str) -> Result<()> {
        self.patch(
            name,
            json!({"metadata": {"labels": {KWOK_LABEL.0: KWOK_LABEL.1}}}),
        )
        .await
    }

    /// Sets a condition, such as one for a GPU. A running kubelet overwrites the condition `Ready`.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn set_condition(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> Result<()> {
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let condition = json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "set by a test",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        });
        self.patch_status(name, json!({"status": {"conditions": [condition]}}))
            .await
    }

    /// Deletes the node object.
    ///
    /// # Errors
    ///
    /// When the node cannot be deleted.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        wait_until_deleted(&self.api, name, Duration::from_secs(30)).await
    }

    /// Sets the amount of one resource of a node, for example fewer GPUs while pods run on it. An
    /// empty quantity removes the resource.
    ///
    /// # Errors
    ///
    /// When the node does not exist, or the quantity is invalid.
    pub async fn set_allocatable(&self, name: &str, resource: &str, quantity: &str) -> Result<()> {
        let quantity = if quantity.is_empty() {
            Value::Null
        } else {
            json!(quantity)
        };
        self.patch_status(
            name,
            json!({"status": {"allocatable": {resource: quantity}}}),
        )
        .await
    }

    /// `kubectl cordon`.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn cordon(&self, name: &str) -> Result<()> {
        self.patch(name, json!({"spec": {"unschedulable": true}}))
            .await
    }

    /// `kubectl uncordon`.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn uncordon(&self, name: &str) -> Result<()> {
        self.patch(name, json!({"spec": {"unschedulable": null}}))
            .await
    }

    /// Adds or changes a taint.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn taint(&self, name: &str, key: &str, value: &str, effect: &str) -> Result<()> {
        let taint = json!({"key": key, "value": value, "effect": effect});
        self.change_taints(name, key, Some(taint)).await
    }

    /// Removes the taints of a key.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn untaint(&self, name: &str, key: &str) -> Result<()> {
        self.change_taints(name, key, None).await
    }

    /// Sets a label, or removes it with `None`.
    ///
    /// # Errors
    ///
    /// When the node does not exist.
    pub async fn label(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        self.patch(name, json!({"metadata": {"labels": {key: value}}}))
            .await
    }

    /// Changes the list of taints with its resourceVersion, because the controller manager changes
    /// it too.
    async fn change_taints(&self, name: &str, key: &str, new: Option<Value>) -> Result<()> {
        eventually(Duration::from_secs(5), || async {
            let node = self.api.get(name).await?;
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let mut taints: Vec<Value> = taints
                .iter()
                .filter(|taint| taint.key != key)
                .map(serde_json::to_value)
                .collect::<Result<_, _>>()?;
            taints.extend(new.clone());
            let version = node.metadata.resource_version;
            self.patch(
                name,
                json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}),
            )
            .await
        })
        .await
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    async fn patch_status(&self, name: &str, patch: Value) -> Result<()> {
        // A strategic merge patch merges conditions by their type.
        self.api
            .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }
}

impl Drop for NodeSet {
    fn drop(&mut self) {
        let names = std::mem::take(&mut self.names);
        if names.is_empty() || !self.owns_nodes {
            return;
        }
        background::run_with_client(self.config.clone(), async move |client| {
            let api: Api<Node> = Api::all(client);
            for name in names {
                let _ = api.delete(&name, &DeleteParams::default()).await;
            }
        });
    }
}

/// Taints that the controller manager sets on nodes that are not Ready.
const NOT_READY_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Returns true if the node is Ready and has no taint of an unready node. The controller manager
/// removes that taint later.
fn is_usable(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    let taints = node
        .spec
        .iter()
        .filter_map(|spec| spec.taints.as_ref())
        .flatten();
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        && !taints
            .into_iter()
            .any(|taint| NOT_READY_TAINTS.contains(&taint.key.as_str()))
}
