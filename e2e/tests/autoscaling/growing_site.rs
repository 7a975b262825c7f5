//! A site whose jobs get new nodes from their own NodePool.

use std::ops::Deref;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::karpenter::{NodePoolTemplate, TestNodePool};
use trellis_e2e::operator::PLACEHOLDER_NAMESPACE;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::queues::resource_groups;

use crate::shared_control_plane;

/// A site with a NodePool, a flavor of the pool's nodes, and a queue with quota of the flavor. All
/// have the name of the site.
pub struct GrowingSite {
    pub pool: TestNodePool,
    site: TestSite,
    control_plane: &'static ControlPlane,
}

impl GrowingSite {
    /// Creates a site with a queue of 1,000 GPUs, whose jobs get new nodes at once. `nodes` exist
    /// from the start, and the flavor may have `max_nodes`.
    pub async fn new(
        prefix: &str,
        nodes: usize,
        max_nodes: usize,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let control_plane = shared_control_plane().await;
        let nodes = NodeTemplate::new(nodes).gpus(8);
        let site = TestSite::new(control_plane, prefix, nodes).await;
        let pool = configure(NodePoolTemplate::new(site.name()));
        let site = Self {
            pool: pool.create(control_plane).await.unwrap(),
            site,
            control_plane,
        };
        site.apply_flavor(json!({"maxNodes": max_nodes})).await;
        site.apply_queue(1_000).await;
        site
    }

    /// Applies the flavor, with these fields of `provisioning`.
    pub async fn apply_flavor(&self, fields: Value) {
        let allocatable = json!({"cpu": 90, "memory": "900Gi", "nvidia.com/gpu": 8});
        let mut provisioning = json!({
            "by": "Placeholders",
            "node": {"allocatable": allocatable},
            "timeoutSeconds": 600,
        });
        let provisioning_fields = provisioning.as_object_mut().unwrap();
        provisioning_fields.extend(fields.as_object().unwrap().clone());
        let spec = json!({
            "nodeLabels": {SCOPE_LABEL: self.name()},
            "provisioning": provisioning,
        });
        self.apply("ResourceFlavor", spec).await;
    }

    /// Applies the queue, with this number of GPUs.
    pub async fn apply_queue(&self, gpus: i64) {
        let spec = json!({
            "namespaceSelector": {},
            "resourceGroups": resource_groups(&[(self.name(), gpus)]),
            "provisioning": {"order": "Nominal", "afterSeconds": 0},
        });
        self.apply("TrainingQueue", spec).await;
    }

    async fn apply(&self, kind: &str, spec: Value) {
        let object = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": self.name()}, "spec": spec,
        });
        self.control_plane
            .apply_yaml(&object.to_string())
            .await
            .unwrap();
    }

    /// Submits a job of this many pods with 8 GPUs each to the queue of the site.
    pub async fn submit_gang(&self, name: &str, pods: u32) -> TrainingJob {
        let mut job = self.job(name, pods, 8);
        job["spec"]["queueName"] = json!(self.name());
        self.create(job).await.unwrap()
    }

    /// Returns the names of the placeholder Jobs of a job.
    pub async fn placeholder_jobs(&self, job: &TrainingJob) -> Vec<String> {
        let uid = job.metadata.uid.as_deref().unwrap();
        let jobs: Api<Job> = Api::namespaced(self.control_plane.client(), PLACEHOLDER_NAMESPACE);
        let labels = format!("capacity.trellis.dev/job-uid={uid}");
        let found = jobs.list(&ListParams::default().labels(&labels)).await;
        let names = found.unwrap().into_iter();
        names.filter_map(|job| job.metadata.name).collect()
    }
}

impl Deref for GrowingSite {
    type Target = TestSite;

    fn deref(&self) -> &TestSite {
        &self.site
    }
}
