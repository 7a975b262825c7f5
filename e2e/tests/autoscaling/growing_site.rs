//! A site whose jobs get new nodes from their own NodePool.

use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{TrainingJob, names};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::{ControlPlane, apply};
use trellis_e2e::karpenter::{NodePoolTemplate, TestNodePool};
use trellis_e2e::operator::PLACEHOLDER_NAMESPACE;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::{eventually, wait_for};

use crate::shared_control_plane;

/// Longest time until nodes have come and a gang runs on them. Some tests let nodes come late, or
/// let an order end, which takes a minute.
const START_TIMEOUT: Duration = Duration::from_secs(240);
/// Longest time until Karpenter has removed empty nodes.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// The nodes of a [`GrowingSite`].
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// Nodes that exist from the start.
    pub nodes: usize,
    /// The most nodes that a flavor may have.
    pub max_nodes: usize,
    /// `timeoutSeconds` and `idleSeconds` of an order.
    pub timeout_seconds: u32,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            nodes: 0,
            max_nodes: 64,
            timeout_seconds: 600,
        }
    }
}

/// A site with a NodePool, a flavor of the pool's nodes, and a queue with quota of the flavor. All
/// have the name of the site.
pub struct GrowingSite {
    pub pool: TestNodePool,
    site: TestSite,
    client: Client,
    growth: Growth,
}

impl GrowingSite {
    /// Creates a site on the shared control plane, with a queue of 1,000 GPUs whose jobs get new
    /// nodes at once. `configure` changes the NodePool.
    pub async fn new(
        prefix: &str,
        growth: Growth,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let control_plane = shared_control_plane().await;
        Self::on(control_plane, prefix, growth, configure).await
    }

    /// Like [`Self::new`], on a control plane of the test.
    pub async fn on(
        control_plane: &ControlPlane,
        prefix: &str,
        growth: Growth,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let nodes = NodeTemplate::new(growth.nodes).gpus(8);
        let site = TestSite::new(control_plane, prefix, nodes).await;
        let pool = configure(NodePoolTemplate::new(site.name()));
        let site = Self {
            pool: pool.create(control_plane).await.unwrap(),
            site,
            client: control_plane.client(),
            growth,
        };
        site.apply_flavor(site.name()).await;
        site.apply_queue(&[(site.name(), 1_000)]).await;
        site
    }

    /// Creates the flavor of the nodes with this scope.
    pub async fn apply_flavor(&self, scope: &str) {
        let allocatable = json!({"cpu": 90, "memory": "900Gi", "nvidia.com/gpu": 8});
        let spec = json!({
            "nodeLabels": {SCOPE_LABEL: scope},
            "provisioning": {
                "by": "Placeholders",
                "node": {"allocatable": allocatable},
                "maxNodes": self.growth.max_nodes,
                "timeoutSeconds": self.growth.timeout_seconds,
                "idleSeconds": self.growth.timeout_seconds,
            },
        });
        self.apply("ResourceFlavor", scope, spec).await;
    }

    /// Applies the queue, with these numbers of GPUs of flavors.
    pub async fn apply_queue(&self, flavors: &[(&str, i64)]) {
        let spec = json!({
            "namespaceSelector": {},
            "resourceGroups": resource_groups(flavors),
            "provisioning": {"order": "Nominal", "afterSeconds": 0},
        });
        self.apply("TrainingQueue", self.name(), spec).await;
    }

    async fn apply(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        apply(&self.client, &object.to_string(), "default")
            .await
            .unwrap();
    }

    /// Returns a job of this many pods with 8 GPUs each in the queue of the site. Its nodes are
    /// those of the queue's flavors.
    pub fn gang_job(&self, name: &str, pods: u32) -> Value {
        let mut job = self.job(name, pods, 8);
        job["spec"]["queueName"] = json!(self.name());
        job["spec"]["taskGroups"][0]["nodeSelector"] = json!({});
        job
    }

    /// Submits the job of [`Self::gang_job`].
    pub async fn submit_gang(&self, name: &str, pods: u32) -> TrainingJob {
        self.create(self.gang_job(name, pods)).await.unwrap()
    }

    /// Waits until a job runs.
    pub async fn wait_until_running(&self, name: &str) -> TrainingJob {
        let is_running = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
        let jobs = self.api::<TrainingJob>();
        wait_for(&jobs, name, START_TIMEOUT, is_running)
            .await
            .unwrap_or_else(|error| panic!("{error:#}; {:?}", self.pool.claims()))
    }

    /// Waits until Karpenter removes or has removed `count` nodes of the site's pool.
    pub async fn wait_for_lost_claims(&self, count: usize) {
        eventually(REMOVAL_TIMEOUT, || async {
            let lost = self.pool.lost_claims();
            ensure!(lost.len() == count, "{lost:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Returns the names of the placeholders of a job: their Jobs, or the pods.
    pub async fn placeholders<K>(&self, job: &TrainingJob) -> Vec<String>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let uid = job.metadata.uid.as_deref().unwrap();
        let objects: Api<K> = Api::namespaced(self.client.clone(), PLACEHOLDER_NAMESPACE);
        let labels = format!("{}={uid}", names::PLACEHOLDER_JOB_UID);
        let found = objects.list(&ListParams::default().labels(&labels)).await;
        found.unwrap().iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until a job has neither placeholder Jobs nor their pods.
    pub async fn wait_until_no_placeholders(&self, job: &TrainingJob) {
        eventually(REMOVAL_TIMEOUT, || async {
            let jobs = self.placeholders::<Job>(job).await;
            let pods = self.placeholders::<Pod>(job).await;
            ensure!(jobs.is_empty() && pods.is_empty(), "{jobs:?}, {pods:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

impl Deref for GrowingSite {
    type Target = TestSite;

    fn deref(&self) -> &TestSite {
        &self.site
    }
}
