//! Claims that come with pods: generic ephemeral volumes (KEP-1698). kube-controller-manager
//! creates the claim once its pod exists. Only the scheduler that chose the pod's node can say
//! where the volume has to be, and the pod does not start before.
//!
//! The state is read from the claim: a claim with the pod's plan and without a node was rejected by
//! the provisioner. So a new leader continues where the last one was.

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
use trellis_gang::binding::Storage;
use trellis_gang::key::Key;
use trellis_gang::observed::{
    PodPhase, PodView, SELECTED_NODE, SlimClaim, SlimVolume, StartObstacle, StartObstacleKind,
};
use trellis_gang::volumes;
use trellis_scheduler::{Constraints, Node, NodeName, Resources};

/// Events of the claim or of the pod say why it is not created or not provisioned.
const WAITING_MESSAGE: &str = "is not bound yet: its events say why, or those of the pod";
/// Claims of one job written at once.
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
    /// It is bound, and the node reaches its volume.
    Bound,
    /// It needs the node of its pod.
    NeedsNode(ClaimNodeRequest),
    /// kube-controller-manager is creating it, or its volume is being provisioned.
    Waiting,
    /// It cannot be bound on its pod's node.
    Unbindable(String),
}

/// Checks the claims of pods that have not started. Returns the pods, marked as stuck if they wait
/// for a claim, and the claims that need a node. `own`: task groups with the ephemeral volumes of
/// each of their pods.
pub(super) fn check_claims(
    storage: &impl Storage,
    uid: &str,
    own: &[(String, String)],
    mut pods: Arc<JobPods>,
) -> (Arc<JobPods>, Vec<ClaimNodeRequest>) {
    let mut asks = Vec::new();
    let mut stuck = Vec::new();
    let waits =
        |pod: &PodView| pod.job_uid == uid && !pod.deleting && pod.phase == PodPhase::Pending;
    for (name, pod) in pods.iter().filter(|(_, pod)| !own.is_empty() && waits(pod)) {
        let Some(node) = &pod.node else { continue };
        for (_, volume) in own.iter().filter(|(group, _)| *group == pod.group) {
            let claim = format!("{name}-{volume}");
            let is_new = match claim_state(storage, &claim, name, pod, node) {
                ClaimState::Bound => continue,
                ClaimState::NeedsNode(ask) => {
                    asks.push(ask);
                    (StartObstacleKind::Claim, WAITING_MESSAGE.to_owned())
                }
                ClaimState::Waiting => (StartObstacleKind::Claim, WAITING_MESSAGE.to_owned()),
                ClaimState::Unbindable(words) => (StartObstacleKind::Volume, words),
            };
            stuck.push((name.clone(), stuck_on_claim(claim, is_new, pod.created)));
        }
    }
    if !stuck.is_empty() {
        let pods = Arc::make_mut(&mut pods);
        for (name, new) in stuck {
            if let Some(pod) = pods.get_mut(&name) {
                // A failure that is final replaces one that may pass.
                let before = pod.start_obstacle.as_ref().map(|stuck| stuck.kind);
                if before.is_none_or(|before| before == StartObstacleKind::Claim) {
                    pod.start_obstacle = Some(Arc::new(new));
                }
            }
        }
    }
    (pods, asks)
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
        // It belongs to the previous pod, and goes with that pod.
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

/// Writes to each claim the node of its pod. If admission refuses the write, the waiting pod shows
/// the claim.
pub(super) async fn write_claim_nodes(
    commands: &Commands,
    context: &Context,
    job: &Key,
    asks: &[ClaimNodeRequest],
) -> Result<(), WriteError> {
    let writes = asks
        .iter()
        .map(|ask| write_claim_node(commands, context, job, ask));
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
    ask: &ClaimNodeRequest,
) -> Result<(), WriteError> {
    let meta = &ask.claim.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "annotations": {SELECTED_NODE: ask.node, names::PLAN: ask.plan},
    }});
    let path = SlimClaim::url_path(&(), Some(&job.namespace));
    let asked = commands
        .patch_as::<SlimClaim>(&path, name, names::SCHEDULER_MANAGER, &patch)
        .await;
    match asked {
        Ok(asked) => {
            info!(%job, claim = name, node = ask.node, "a volume is asked for");
            context.apply_written_claim(&Key::new(&job.namespace, name), asked);
            Ok(())
        }
        Err(WriteError::NotFound(_)) => Ok(()),
        Err(WriteError::Refused { message, .. }) => {
            warn!(%job, claim = name, why = %message, "a claim does not take the node of its pod");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
