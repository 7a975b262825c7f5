//! NodePools of a test.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use super::NODE_TIMEOUT;
use super::claims::{NodeClaimHistory, NodeClaimRecord};
use crate::cluster::{NodeSet, SCOPE_LABEL};
use crate::control_plane::{ControlPlane, KWOK_LABEL};
use crate::site::background;
use crate::wait::eventually;

/// The label of Karpenter's nodes and NodeClaims with the name of their NodePool.
pub(super) const POOL_LABEL: &str = "karpenter.sh/nodepool";
/// Karpenter sets this label once it has found the node of a NodeClaim, and has set its taints.
const REGISTERED_LABEL: &str = "karpenter.sh/registered";
/// Karpenter sets this label once a node is Ready, has its devices and has lost its startup taints.
const INITIALIZED_LABEL: &str = "karpenter.sh/initialized";
/// The instance type with 8 GPUs, in `zone-a`, or `zone-b` at a higher price.
pub const GPU_INSTANCE: &str = "gpu-8";

/// A NodePool and its KWOKNodeClass. By default it buys [`GPU_INSTANCE`]s without limit, and
/// Karpenter removes empty nodes as soon as it can.
#[derive(Debug, Clone)]
pub struct NodePoolTemplate {
    name: String,
    labels: BTreeMap<String, String>,
    /// `spec.template.spec` of the NodePool.
    node: Value,
    disruption: Value,
    limits: BTreeMap<String, String>,
    registration_delay: String,
}

impl NodePoolTemplate {
    /// Creates a template for a NodePool with this name. Its nodes have the label
    /// `test.trellis.dev/scope` with the same value: with the name of a
    /// [`TestSite`](crate::site::TestSite), they are for the jobs of the site.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let labels = [(SCOPE_LABEL, name), KWOK_LABEL];
        Self {
            name: name.to_owned(),
            labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
            node: json!({
                "expireAfter": "Never",
                "taints": [],
                "startupTaints": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name},
            }),
            disruption: json!({
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            }),
            limits: BTreeMap::new(),
            registration_delay: "0s".to_owned(),
        }
        .instance_types(&[GPU_INSTANCE])
    }

    /// Sets the instance types, from `control-plane/karpenter/instance-types.json`.
    #[must_use]
    pub fn instance_types(mut self, names: &[&str]) -> Self {
        self.node["requirements"] = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names},
        ]);
        self
    }

    /// Adds a label to the nodes. [`SCOPE_LABEL`] replaces the default scope.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint to the nodes. `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.add_taint("taints", key, value, effect);
        self
    }

    /// Adds a startup taint. A node is not initialized until the test removes the taint.
    #[must_use]
    pub fn startup_taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.add_taint("startupTaints", key, value, effect);
        self
    }

    fn add_taint(&mut self, list: &str, key: &str, value: &str, effect: &str) {
        let taints = self.node[list].as_array_mut();
        let taint = json!({"key": key, "value": value, "effect": effect});
        taints.expect("the list exists from the start").push(taint);
    }

    /// Limits a resource of the whole NodePool, such as `nvidia.com/gpu`. A limit of `nodes` does not
    /// hold: Karpenter buys a node for each pod of a batch regardless of it.
    #[must_use]
    pub fn limit(mut self, resource: &str, quantity: &str) -> Self {
        self.limits.insert(resource.to_owned(), quantity.to_owned());
        self
    }

    /// Sets the time from the launch of a NodeClaim to its Node object, such as `20s`.
    #[must_use]
    pub fn registration_delay(mut self, delay: &str) -> Self {
        delay.clone_into(&mut self.registration_delay);
        self
    }

    /// Sets the time after which Karpenter removes an empty node, such as `30s` or `Never`.
    #[must_use]
    pub fn consolidate_after(mut self, after: &str) -> Self {
        self.disruption["consolidateAfter"] = json!(after);
        self
    }

    /// Sets the age at which Karpenter replaces a node, such as `60s`.
    #[must_use]
    pub fn expire_after(mut self, age: &str) -> Self {
        self.node["expireAfter"] = json!(age);
        self
    }

    /// Sets the time after which Karpenter ends a node regardless of its pods.
    #[must_use]
    pub fn termination_grace_period(mut self, period: &str) -> Self {
        self.node["terminationGracePeriod"] = json!(period);
        self
    }

    /// Creates the NodePool. It is deleted with the returned value, and its nodes with it.
    ///
    /// # Errors
    ///
    /// When the API server refuses an object.
    pub async fn create(&self, control_plane: &ControlPlane) -> Result<TestNodePool> {
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": self.name},
            "spec": {"nodeRegistrationDelay": self.registration_delay},
        });
        let pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": self.name},
            "spec": {
                "template": {"metadata": {"labels": self.labels}, "spec": self.node},
                "disruption": self.disruption,
                "limits": self.limits,
            },
        });
        control_plane.apply_yaml(&class.to_string()).await?;
        let created = TestNodePool {
            name: self.name.clone(),
            history: NodeClaimHistory::record(control_plane.client(), &self.name),
            config: control_plane.client_config(),
        };
        control_plane.apply_yaml(&pool.to_string()).await?;
        Ok(created)
    }
}

/// A NodePool, with a record of all its NodeClaims. It is deleted in the background when this value
/// is dropped.
#[derive(Debug)]
pub struct TestNodePool {
    name: String,
    history: NodeClaimHistory,
    config: Config,
}

impl TestNodePool {
    /// The name of the NodePool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Merges a patch into `spec` of the NodePool.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn patch(&self, spec: &Value) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
        let client = Client::try_from(self.config.clone())?;
        let api: Api<DynamicObject> = Api::all_with(client, &kind);
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Returns every NodeClaim that a watch has ever shown, by name: what the pool has cost.
    #[must_use]
    pub fn claims(&self) -> BTreeMap<String, NodeClaimRecord> {
        self.history.records()
    }

    /// Returns the NodeClaims that Karpenter disrupts or that are deleted.
    #[must_use]
    pub fn lost_claims(&self) -> BTreeMap<String, NodeClaimRecord> {
        let mut claims = self.claims();
        claims.retain(|_, claim| claim.is_deleted || claim.disruption.is_some());
        claims
    }

    /// Waits until Karpenter has ever bought `count` nodes or more for the pool.
    ///
    /// # Errors
    ///
    /// When it buys fewer.
    pub async fn wait_for_claims(&self, count: usize) -> Result<()> {
        eventually(NODE_TIMEOUT, || async {
            let claims = self.claims();
            ensure!(
                claims.len() >= count,
                "{} NodeClaims: {claims:?}",
                claims.len()
            );
            Ok(())
        })
        .await
    }

    /// Waits until `count` nodes of the pool are Ready and Karpenter has initialized them: they have
    /// no startup taint, and offer the devices of their instance type.
    ///
    /// # Errors
    ///
    /// When fewer or more nodes are initialized; the error has all NodeClaims.
    pub async fn wait_for_nodes(&self, count: usize) -> Result<NodeSet> {
        self.wait_for_labelled_nodes(count, INITIALIZED_LABEL).await
    }

    /// Waits until `count` nodes of the pool are Ready. They may have startup taints, and lack
    /// devices.
    ///
    /// # Errors
    ///
    /// Those of [`TestNodePool::wait_for_nodes`].
    pub async fn wait_for_registered_nodes(&self, count: usize) -> Result<NodeSet> {
        self.wait_for_labelled_nodes(count, REGISTERED_LABEL).await
    }

    async fn wait_for_labelled_nodes(&self, count: usize, label: &str) -> Result<NodeSet> {
        let api: Api<Node> = Api::all(Client::try_from(self.config.clone())?);
        let names = eventually(NODE_TIMEOUT, || async {
            let names = self.labelled_nodes(&api, label).await?;
            ensure!(names.len() == count, "{} nodes have {label}", names.len());
            Ok(names)
        })
        .await
        .with_context(|| format!("NodePool {}: {:?}", self.name, self.claims()))?;
        let nodes = NodeSet::of_controller(names, self.config.clone())?;
        nodes.wait_until_ready().await?;
        Ok(nodes)
    }

    /// Returns the nodes that Karpenter has registered so far. They may have startup taints, and
    /// lack devices.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn registered_nodes(&self) -> Result<NodeSet> {
        let api: Api<Node> = Api::all(Client::try_from(self.config.clone())?);
        let names = self.labelled_nodes(&api, REGISTERED_LABEL).await?;
        NodeSet::of_controller(names, self.config.clone())
    }

    async fn labelled_nodes(&self, api: &Api<Node>, label: &str) -> Result<Vec<String>> {
        let labels = format!("{POOL_LABEL}={},{label}=true", self.name);
        let nodes = api.list(&ListParams::default().labels(&labels)).await?;
        Ok(nodes.iter().map(ResourceExt::name_any).collect())
    }

    /// Waits until the pool has one NodeClaim or more, and `predicate` is true for all of them.
    ///
    /// # Errors
    ///
    /// When it is false for one; the error has all NodeClaims.
    pub async fn wait_until_all(&self, predicate: impl Fn(&NodeClaimRecord) -> bool) -> Result<()> {
        eventually(NODE_TIMEOUT, || async {
            let claims = self.claims();
            let all = !claims.is_empty() && claims.values().all(&predicate);
            ensure!(all, "NodePool {}: {claims:?}", self.name);
            Ok(())
        })
        .await
    }
}

impl Drop for TestNodePool {
    fn drop(&mut self) {
        let name = self.name.clone();
        background::run_with_client(self.config.clone(), async move |client| {
            for (group, version, kind) in [
                ("karpenter.sh", "v1", "NodePool"),
                ("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass"),
            ] {
                let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
                let _ = api.delete(&name, &DeleteParams::background()).await;
            }
        });
    }
}
