//! A NodePool with placeholder pods, and a gang on its nodes.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use trellis_e2e::cluster::{NodeSet, SCOPE_LABEL};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::karpenter::{NodePoolTemplate, TestNodePool};
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::eventually;

/// Longest time until a controller has acted. An idle machine needs far less.
pub const SOON: Duration = Duration::from_secs(60);
/// The Job of each site's placeholders.
pub const JOB: &str = "placeholders";

/// A namespace with placeholder pods that fit only the nodes of its own NodePool.
pub struct AutoscaledSite {
    pub pool: TestNodePool,
    /// All placeholders that the site has ever had.
    pub history: PodHistory,
    namespace: TestNamespace,
}

impl AutoscaledSite {
    /// Creates a site. `configure` changes its NodePool.
    pub async fn new(
        control_plane: &ControlPlane,
        prefix: &str,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
        let template = configure(NodePoolTemplate::new(namespace.name()));
        Self {
            pool: template.create(control_plane).await.unwrap(),
            history: PodHistory::record(namespace.api()),
            namespace,
        }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.namespace.api()
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    pub fn jobs(&self) -> Api<Job> {
        self.api()
    }

    /// Creates a Job of `count` placeholders, and waits until the Job controller has created them.
    /// Each asks for all GPUs of a node. `deadline` is in seconds.
    pub async fn create_placeholders(&self, count: usize, deadline: u32) {
        let job = json!({
            "metadata": {"name": JOB},
            "spec": {
                "parallelism": count,
                "completions": count,
                "backoffLimit": 0,
                "activeDeadlineSeconds": deadline,
                "template": {"spec": self.pod_spec(json!({
                    "schedulerName": "trellis.dev-placeholder",
                    "terminationGracePeriodSeconds": 0,
                }))},
            },
        });
        let job = serde_json::from_value(job).unwrap();
        self.jobs()
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
        eventually(SOON, || async {
            let pods = self.pods().list(&ListParams::default()).await?;
            ensure!(
                pods.items.len() == count,
                "{} placeholders",
                pods.items.len()
            );
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Returns the spec of a pod with all GPUs of a node, and these fields.
    fn pod_spec(&self, mut fields: Value) -> Value {
        let resources = json!({"nvidia.com/gpu": "8", "cpu": "1"});
        let container = json!({
            "name": "main", "image": "registry.example/pause",
            "resources": {"limits": resources, "requests": resources},
        });
        fields["containers"] = json!([container]);
        fields["restartPolicy"] = json!("Never");
        fields["nodeSelector"] = json!({SCOPE_LABEL: self.pool.name()});
        fields
    }

    /// Writes into the status of each placeholder that no node can hold it.
    pub async fn mark_unschedulable(&self) {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "a node is on order",
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        for pod in self.pod_names().await {
            self.pods()
                .patch_status(&pod, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// Buys `count` nodes by placeholders, and waits until they are initialized.
    pub async fn buy_nodes(&self, count: usize) -> NodeSet {
        self.create_placeholders(count, 600).await;
        self.mark_unschedulable().await;
        self.pool.wait_for_nodes(count).await.unwrap()
    }

    /// Deletes the Job and its pods, and waits until the pods are gone.
    pub async fn withdraw_placeholders(&self) {
        self.delete_placeholders().await;
        self.wait_until_no_pods().await;
    }

    /// Deletes the Job in the background, and its pods in one request.
    pub async fn delete_placeholders(&self) {
        let deletion = DeleteParams::background();
        self.jobs().delete(JOB, &deletion).await.unwrap();
        self.pods()
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .unwrap();
    }

    pub async fn wait_until_no_pods(&self) {
        eventually(SOON, || async {
            let pods = self.pods().list(&ListParams::default()).await?;
            ensure!(pods.items.is_empty(), "{} pods are left", pods.items.len());
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Creates one pod for each node, as a gang of Trellis: bound, and not to be disrupted.
    pub async fn bind_gang(&self, nodes: &NodeSet) {
        for (rank, node) in nodes.names().iter().enumerate() {
            let pod = json!({
                "metadata": {
                    "name": format!("worker-{rank}"),
                    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                },
                "spec": self.pod_spec(json!({"nodeName": node})),
            });
            let pod = serde_json::from_value(pod).unwrap();
            self.pods()
                .create(&PostParams::default(), &pod)
                .await
                .unwrap();
        }
    }

    pub async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        pods.iter().map(ResourceExt::name_any).collect()
    }

    /// Returns the number of pods whose containers run.
    pub async fn running_pods(&self) -> usize {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        let running = pods.iter().filter(|pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            phase == Some("Running")
        });
        running.count()
    }
}
