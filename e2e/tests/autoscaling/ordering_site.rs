//! A site whose queue orders new nodes.

use std::ops::Deref;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::{ControlPlane, apply};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::wait_for;

/// Longest time until nodes have come and a gang runs on them. Some tests let nodes come late, or
/// let an order end, which takes a minute.
const START_TIMEOUT: Duration = Duration::from_secs(240);

/// Nodes and limits of an [`OrderingSite`].
#[derive(Debug, Clone, Copy)]
pub struct OrderingOptions {
    /// Nodes that exist from the start.
    pub nodes: usize,
    /// The most nodes that a flavor may have.
    pub max_nodes: usize,
    /// `timeoutSeconds` and `idleSeconds` of an order.
    pub timeout_seconds: u32,
}

impl Default for OrderingOptions {
    fn default() -> Self {
        Self {
            nodes: 0,
            max_nodes: 64,
            timeout_seconds: 600,
        }
    }
}

/// A site with a flavor of its nodes, and a queue with quota of the flavor. Both have the name of
/// the site.
pub struct OrderingSite {
    site: TestSite,
    client: Client,
    options: OrderingOptions,
    /// `provisioning` of the flavors, without the fields of [`OrderingOptions`].
    method: Value,
}

impl OrderingSite {
    /// Creates a site with a queue of 1,000 GPUs whose jobs get new nodes at once. `method` has the
    /// fields by which its flavors order nodes.
    pub async fn new(
        control_plane: &ControlPlane,
        prefix: &str,
        options: OrderingOptions,
        method: Value,
    ) -> Self {
        let nodes = NodeTemplate::new(options.nodes).gpus(8);
        let site = Self {
            site: TestSite::new(control_plane, prefix, nodes).await,
            client: control_plane.client(),
            options,
            method,
        };
        site.apply_flavor(site.name()).await;
        site.apply_queue(&[(site.name(), 1_000)]).await;
        site
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Creates the flavor of the nodes with this scope.
    pub async fn apply_flavor(&self, scope: &str) {
        let allocatable = json!({"cpu": 90, "memory": "900Gi", "nvidia.com/gpu": 8});
        let mut provisioning = json!({
            "node": {"allocatable": allocatable},
            "maxNodes": self.options.max_nodes,
            "timeoutSeconds": self.options.timeout_seconds,
            "idleSeconds": self.options.timeout_seconds,
        });
        let method = self.method.as_object().unwrap().clone();
        provisioning.as_object_mut().unwrap().extend(method);
        let spec = json!({"nodeLabels": {SCOPE_LABEL: scope}, "provisioning": provisioning});
        self.apply("ResourceFlavor", scope, spec).await;
    }

    /// Removes `provisioning` from the flavor of the site.
    pub async fn stop_flavor(&self) {
        let spec = json!({"nodeLabels": {SCOPE_LABEL: self.name()}});
        self.apply("ResourceFlavor", self.name(), spec).await;
    }

    /// Applies a policy of the site's namespace that denies all new nodes.
    pub async fn deny_new_nodes(&self) {
        let policy = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
            "metadata": {"name": "no-nodes", "namespace": self.name()},
            "spec": {"cedar":
                "forbid(principal, action == Trellis::Action::\"ProvisionNodes\", resource);"},
        });
        apply(&self.client, &policy.to_string(), self.name())
            .await
            .unwrap();
    }

    /// Returns the words in the message of a job while [`Self::deny_new_nodes`] denies its nodes.
    pub fn denial_words(&self) -> String {
        format!("which the policy \"{}/no-nodes/0\" forbids", self.name())
    }

    /// Applies the queue, with these numbers of GPUs of flavors.
    pub async fn apply_queue(&self, flavors: &[(&str, i64)]) {
        self.apply_queue_with_order("Nominal", flavors).await;
    }

    /// Applies the queue, with this `provisioning.order`.
    pub async fn apply_queue_with_order(&self, order: &str, flavors: &[(&str, i64)]) {
        let spec = json!({
            "namespaceSelector": {},
            "resourceGroups": resource_groups(flavors),
            "provisioning": {"order": order, "afterSeconds": 0},
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
            .unwrap_or_else(|error| panic!("{error:#}"))
    }
}

impl Deref for OrderingSite {
    type Target = TestSite;

    fn deref(&self) -> &TestSite {
        &self.site
    }
}
