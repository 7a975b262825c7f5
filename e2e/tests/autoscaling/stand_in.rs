//! A stand-in for Cluster Autoscaler. It sets the conditions of ProvisioningRequests in the order in
//! which Cluster Autoscaler 1.36 sets them (`provisioningrequest/` and `processors/provreq/` in
//! kubernetes/autoscaler), and creates nodes: above all, `Provisioned` is true before the nodes
//! exist. Each pod of a request takes a whole node.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplate};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trellis_e2e::binaries::download_module;
use trellis_e2e::cluster::{NodeSet, NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::ControlPlane;
use trellis_gang::node_order::cluster_autoscaler::{GKE_NODE_LABEL, ProvisioningRequest};

/// The module with the CRD, of `control-plane/crds`.
const MODULE: &str = "k8s.io/autoscaler/cluster-autoscaler/apis";
/// Time between two lists of the requests.
const INTERVAL: Duration = Duration::from_millis(200);

/// Returns the CRD of ProvisioningRequests.
pub fn crd() -> String {
    let module = download_module("crds", MODULE).unwrap();
    let file = "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml";
    fs::read_to_string(module.join(file)).unwrap()
}

/// Reaction of the stand-in to each request.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It is accepted, and nothing follows.
    Silence,
    /// No room is found for it.
    NoRoom,
    /// It fails.
    Failure,
    /// Its nodes come.
    Nodes(Arrival),
}

/// Times of the nodes of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Time until the nodes exist.
    pub after: Duration,
    /// Time after which they are no longer kept for the request: 10 minutes in Cluster Autoscaler.
    pub booking: Option<Duration>,
    /// Time after which the provider takes them back.
    pub revocation: Option<Duration>,
}

/// The stand-in for the nodes of one site. It stops when this value is dropped.
pub struct StandIn {
    pool: Arc<Pool>,
    task: JoinHandle<()>,
}

/// A control plane that outlives the stand-in.
type SharedControlPlane = dyn Deref<Target = ControlPlane> + Send + Sync;

/// The nodes of a site.
struct Pool {
    control_plane: Box<SharedControlPlane>,
    site: String,
    answer: Answer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Uids of all requests.
    requests: BTreeSet<String>,
    bought: usize,
    /// Bought nodes that do not exist yet.
    upcoming: usize,
    nodes: Vec<NodeSet>,
}

impl StandIn {
    /// Answers the requests in the namespace of a site. Its nodes have the scope of the site.
    pub fn start(
        control_plane: impl Deref<Target = ControlPlane> + Send + Sync + 'static,
        site: &str,
        answer: Answer,
    ) -> Self {
        let pool = Arc::new(Pool {
            control_plane: Box::new(control_plane),
            site: site.to_owned(),
            answer,
            state: Mutex::default(),
        });
        let task = tokio::spawn(pool.clone().run());
        Self { pool, task }
    }

    /// Returns the number of nodes that were bought.
    pub fn bought(&self) -> usize {
        self.pool.state.lock().bought
    }

    /// Returns the number of requests that existed.
    pub fn requests(&self) -> usize {
        self.pool.state.lock().requests.len()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pool {
    fn client(&self) -> Client {
        self.control_plane.client()
    }

    async fn run(self: Arc<Self>) {
        let requests: Api<ProvisioningRequest> = Api::namespaced(self.client(), &self.site);
        loop {
            for request in requests.list(&ListParams::default()).await.unwrap() {
                let uid = request.uid().unwrap();
                let is_new = self.state.lock().requests.insert(uid);
                if is_new {
                    let requests = requests.clone();
                    tokio::spawn(self.clone().answer(RequestStatus::new(request, requests)));
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn answer(self: Arc<Self>, mut request: RequestStatus) {
        if !self.has_templates(&request.request).await {
            let message = "a PodTemplate does not exist";
            return request
                .set("Failed", "True", "FailedToCreatePods", message)
                .await;
        }
        request
            .set(
                "Accepted",
                "True",
                "Accepted",
                "Provisioning Request was accepted",
            )
            .await;
        match self.answer {
            Answer::Silence => {}
            Answer::NoRoom => {
                let message = "Capacity is not found, CA will try to find it later.";
                request
                    .set("Provisioned", "False", "CapacityIsNotFound", message)
                    .await;
            }
            Answer::Failure => {
                request
                    .set(
                        "Failed",
                        "True",
                        "Failed",
                        "the project has no quota of GPUs",
                    )
                    .await;
            }
            Answer::Nodes(arrival) => self.provide(request, arrival).await,
        }
    }

    /// Cluster Autoscaler refuses a request whose PodTemplates do not exist.
    async fn has_templates(&self, request: &ProvisioningRequest) -> bool {
        let templates: Api<PodTemplate> = Api::namespaced(self.client(), &self.site);
        for pods in &request.spec.pod_sets {
            let found = templates.get_opt(&pods.pod_template_ref.name).await;
            if found.unwrap().is_none() {
                return false;
            }
        }
        true
    }

    async fn provide(&self, mut request: RequestStatus, arrival: Arrival) {
        let pods = request.request.spec.pod_sets.iter().map(|pods| pods.count);
        let pods = usize::try_from(pods.sum::<i64>()).unwrap();
        let has_exclusive_nodes = request.request.has_exclusive_nodes();
        let free = self.free_nodes().await;
        let (first, count) = {
            let mut state = self.state.lock();
            let free = match has_exclusive_nodes {
                true => 0,
                false => free + state.upcoming,
            };
            let (first, count) = (state.bought, pods.saturating_sub(free));
            state.bought += count;
            state.upcoming += count;
            (first, count)
        };
        let mut nodes = NodeTemplate::new(count)
            .gpus(8)
            .first_index(first)
            .name(&format!("{}-new-{{i}}", self.site))
            .scope(&self.site);
        if has_exclusive_nodes {
            let value = format!("resize-{}", request.request.name_any());
            nodes = nodes.label(GKE_NODE_LABEL, &value);
            request.details = json!({"ResizeRequestName": value});
        }
        let message = "Provisioning Request was successfully provisioned.";
        request
            .set("Provisioned", "True", "CapacityIsProvisioned", message)
            .await;
        tokio::join!(
            self.add_nodes(nodes, count, arrival.after),
            request.end(arrival)
        );
    }

    async fn add_nodes(&self, nodes: NodeTemplate, count: usize, after: Duration) {
        tokio::time::sleep(after).await;
        let nodes = nodes.create(&self.control_plane).await.unwrap();
        let mut state = self.state.lock();
        state.upcoming -= count;
        state.nodes.push(nodes);
    }

    /// Returns the number of nodes of the site without pods.
    async fn free_nodes(&self) -> usize {
        let scope = ListParams::default().labels(&format!("{SCOPE_LABEL}={}", self.site));
        let nodes = Api::<Node>::all(self.client()).list(&scope).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(self.client(), &self.site);
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let used = pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let used: BTreeSet<String> = used.collect();
        nodes
            .iter()
            .filter(|node| !used.contains(&node.name_any()))
            .count()
    }
}

/// A request and the status that the stand-in has given it.
struct RequestStatus {
    request: ProvisioningRequest,
    conditions: Vec<Value>,
    details: Value,
    api: Api<ProvisioningRequest>,
}

impl RequestStatus {
    fn new(request: ProvisioningRequest, api: Api<ProvisioningRequest>) -> Self {
        Self {
            request,
            conditions: Vec::new(),
            details: json!({}),
            api,
        }
    }

    /// Sets a condition, unless the request is gone.
    async fn set(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        self.conditions.push(json!({
            "type": name, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now,
        }));
        let patch = json!({
            "metadata": {"uid": self.request.uid()},
            "status": {"conditions": self.conditions, "provisioningClassDetails": self.details},
        });
        let name = self.request.name_any();
        let params = PatchParams::default();
        match self
            .api
            .patch_status(&name, &params, &Patch::Merge(patch))
            .await
        {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends the booking of the nodes, or takes them back.
    async fn end(&mut self, arrival: Arrival) {
        if let Some(booking) = arrival.booking {
            tokio::time::sleep(booking).await;
            let message = "Capacity booking for the Provisioning Request has expired";
            self.set(
                "BookingExpired",
                "True",
                "CapacityReservationTimeExpired",
                message,
            )
            .await;
        }
        if let Some(revocation) = arrival.revocation {
            tokio::time::sleep(revocation).await;
            self.set(
                "CapacityRevoked",
                "True",
                "Revoked",
                "the provider took the nodes back",
            )
            .await;
        }
    }
}
