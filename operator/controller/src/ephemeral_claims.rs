//! Claims of generic ephemeral volumes (KEP-1698). kube-controller-manager creates the claim once
//! its pod exists. The provisioner then needs the node of the pod, which only the scheduler that
//! placed the pod knows. Trellis writes it to the claim.
//!
//! The claim records the progress, so a new leader continues the work: if the claim has the pod's
//! plan but no node, the provisioner has rejected the node.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use serde_json::json;
use tracing::{info, warn};
use trellis_api::names;
use trellis_cache::watch::JobPods;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_gang::key::Key;
use trellis_gang::observed::{
    PodPhase, PodView, SELECTED_NODE, SlimClaim, SlimVolume, StartObstacle, StartObstacleKind,
};
use trellis_gang::requirements::binding::Storage;
use trellis_gang::requirements::volumes;
use trellis_scheduler::{Constraints, Node, NodeName, Resources};

/// Message while the claim is not created or not provisioned.
const WAITING_MESSAGE: &str = "is not bound yet: its events say why, or those of the pod";
/// Most concurrent writes to claims of one job.
const MAX_CONCURRENT_WRITES: usize = 16;

/// A claim whose volume has to be provisioned for its pod's node.
#[derive(Clone, Debug)]
pub(super) struct ClaimNodeRequest {
    claim: Arc<SlimClaim>,
    node: String,
    plan: String,
}

/// State of a pod's ephemeral claim.
#[derive(Clone, Debug)]
enum ClaimState {
    /// The claim is bound, and the node reaches its volume.
    Bound,
    /// The claim needs the node of its pod.
    NeedsNode(ClaimNodeRequest),
    /// kube-controller-manager is creating the claim, or its volume is being provisioned.
    Waiting,
    /// The claim cannot be bound on the node of its pod.
    Unbindable(String),
}

/// Checks the claims of pods that have not started. Returns the pods, with a start obstacle if they
/// wait for a claim, and the claims that need a node. `volumes_by_group` has the ephemeral volumes
/// of the pods of each task group.
pub(super) fn check_claims(
    storage: &impl Storage,
    uid: &str,
    volumes_by_group: &[(String, String)],
    mut pods: Arc<JobPods>,
) -> (Arc<JobPods>, Vec<ClaimNodeRequest>) {
    let mut requests = Vec::new();
    let mut obstacles = Vec::new();
    let is_waiting =
        |pod: &PodView| pod.job_uid == uid && !pod.deleting && pod.phase == PodPhase::Pending;
    for (name, pod) in pods
        .iter()
        .filter(|(_, pod)| !volumes_by_group.is_empty() && is_waiting(pod))
    {
        let Some(node) = &pod.node else { continue };
        for (_, volume) in volumes_by_group
            .iter()
            .filter(|(group, _)| *group == pod.group)
        {
            let claim = format!("{name}-{volume}");
            let obstacle = match claim_state(storage, &claim, name, pod, node) {
                ClaimState::Bound => continue,
                ClaimState::NeedsNode(request) => {
                    requests.push(request);
                    (StartObstacleKind::Claim, WAITING_MESSAGE.to_owned())
                }
                ClaimState::Waiting => (StartObstacleKind::Claim, WAITING_MESSAGE.to_owned()),
                ClaimState::Unbindable(message) => (StartObstacleKind::Volume, message),
            };
            obstacles.push((name.clone(), stuck_on_claim(claim, obstacle, pod.created)));
        }
    }
    if !obstacles.is_empty() {
        let pods = Arc::make_mut(&mut pods);
        for (name, obstacle) in obstacles {
            if let Some(pod) = pods.get_mut(&name) {
                // A permanent obstacle replaces a temporary one.
                let current = pod.start_obstacle.as_ref().map(|obstacle| obstacle.kind);
                if current.is_none_or(|current| current == StartObstacleKind::Claim) {
                    pod.start_obstacle = Some(Arc::new(obstacle));
                }
            }
        }
    }
    (pods, requests)
}

fn stuck_on_claim(
    claim: String,
    (obstacle, message): (StartObstacleKind, String),
    since: Option<Timestamp>,
) -> StartObstacle {
    StartObstacle {
        kind: obstacle,
        container: claim,
        message,
        since,
    }
}

fn claim_state(
    storage: &impl Storage,
    name: &str,
    pod_name: &str,
    pod: &PodView,
    node: &str,
) -> ClaimState {
    let Some(claim) = storage.claim(name) else {
        return ClaimState::Waiting;
    };
    match claim.pod() {
        Some(owner) if owner.uid == pod.uid => {}
        // The claim belongs to the previous pod of this name, and is deleted with that pod.
        Some(owner) if owner.name == pod_name => return ClaimState::Waiting,
        _ => {
            return ClaimState::Unbindable(
                "does not belong to this pod: delete it, or rename the volume".to_owned(),
            );
        }
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return ClaimState::Waiting;
    }
    if claim.status.phase == "Lost" {
        return ClaimState::Unbindable(format!("has lost its volume {:?}", claim.spec.volume_name));
    }
    if claim.is_bound() {
        let Some(volume) = storage.volume(&claim.spec.volume_name) else {
            return ClaimState::Waiting;
        };
        let labels = storage.node_labels(node);
        return match labels.is_none_or(|labels| is_volume_reachable(&volume, node, labels)) {
            true => ClaimState::Bound,
            false => ClaimState::Unbindable(format!(
                "has volume {:?}, which node {node:?} does not reach: use a StorageClass with volumeBindingMode WaitForFirstConsumer",
                volume.name()
            )),
        };
    }
    let class = storage.class(claim.class());
    let binds_late = class.is_some_and(|class| class.binds_on_first_consumer());
    match claim.selected_node() {
        _ if !claim.is_free() || !binds_late => ClaimState::Waiting,
        Some(selected) if selected == node => ClaimState::Waiting,
        None if claim.plan() == Some(&pod.plan) => ClaimState::Unbindable(format!(
            "could not be provisioned for node {node:?}: the claim's events say why"
        )),
        _ => ClaimState::NeedsNode(ClaimNodeRequest {
            claim,
            node: node.to_owned(),
            plan: pod.plan.clone(),
        }),
    }
}

fn is_volume_reachable(
    volume: &SlimVolume,
    name: &str,
    labels: std::collections::BTreeMap<String, String>,
) -> bool {
    let mut node = Node::new(NodeName::new(name), Resources::new());
    node.labels = labels;
    let constraints = Constraints {
        volumes: volumes::volume_node_terms(volume),
        ..Constraints::default()
    };
    constraints.are_met_by(&node)
}

/// Writes to each claim the node of its pod. If admission refuses a write, the start obstacle of
/// the pod still names the claim.
pub(super) async fn write_claim_nodes(
    commands: &Commands,
    context: &Context,
    job: &Key,
    requests: &[ClaimNodeRequest],
) -> Result<(), WriteError> {
    let writes = requests
        .iter()
        .map(|request| write_claim_node(commands, context, job, request));
    let writes: Vec<_> = writes.collect();
    stream::iter(writes)
        .buffer_unordered(MAX_CONCURRENT_WRITES)
        .try_collect::<()>()
        .await
}

async fn write_claim_node(
    commands: &Commands,
    context: &Context,
    job: &Key,
    request: &ClaimNodeRequest,
) -> Result<(), WriteError> {
    let meta = &request.claim.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "annotations": {SELECTED_NODE: request.node, names::PLAN: request.plan},
    }});
    let path = SlimClaim::url_path(&(), Some(&job.namespace));
    let written = commands
        .patch_as::<SlimClaim>(&path, name, names::SCHEDULER_MANAGER, &patch)
        .await;
    match written {
        Ok(written) => {
            info!(%job, claim = name, node = request.node, "requested a volume for a pod's node");
            context.apply_written_claim(&Key::new(&job.namespace, name), written);
            Ok(())
        }
        Err(WriteError::NotFound(_)) => Ok(()),
        Err(WriteError::Refused { message, .. }) => {
            warn!(%job, claim = name, why = %message, "admission refused the node of a pod's claim");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
