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
use trellis_cache::watch::Pods;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_gang::binding::Storage;
use trellis_gang::key::Key;
use trellis_gang::observed::{
    Obstacle, PodPhase, PodView, SELECTED_NODE, SlimClaim, SlimVolume, Stuck,
};
use trellis_gang::volumes;
use trellis_scheduler::{Constraints, Node, NodeName, Resources};

/// Events of the claim or of the pod say why it is not created or not provisioned.
const WAITS: &str = "is not bound yet: its events say why, or those of the pod";
/// Claims of one job written at once.
const AT_ONCE: usize = 16;

/// A claim whose volume has to be provisioned for its pod's node.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    claim: Arc<SlimClaim>,
    node: String,
    plan: String,
}

/// State of a pod's ephemeral claim.
#[derive(Clone, Debug)]
enum Standing {
    /// It is bound, and the node reaches its volume.
    Bound,
    /// It needs the node of its pod.
    Ask(Ask),
    /// kube-controller-manager is creating it, or its volume is being provisioned.
    Waits,
    /// It cannot be bound on its pod's node.
    Lost(String),
}

/// Checks the claims of pods that have not started. Returns the pods, marked as stuck if they wait
/// for a claim, and the claims that need a node. `own`: task groups with the ephemeral volumes of
/// each of their pods.
pub(super) fn look(
    storage: &impl Storage,
    uid: &str,
    own: &[(String, String)],
    mut pods: Arc<Pods>,
) -> (Arc<Pods>, Vec<Ask>) {
    let mut asks = Vec::new();
    let mut stuck = Vec::new();
    let waits =
        |pod: &PodView| pod.job_uid == uid && !pod.deleting && pod.phase == PodPhase::Pending;
    for (name, pod) in pods.iter().filter(|(_, pod)| !own.is_empty() && waits(pod)) {
        let Some(node) = &pod.node else { continue };
        for (_, volume) in own.iter().filter(|(group, _)| *group == pod.group) {
            let claim = format!("{name}-{volume}");
            let is_new = match standing(storage, &claim, name, pod, node) {
                Standing::Bound => continue,
                Standing::Ask(ask) => {
                    asks.push(ask);
                    (Obstacle::Claim, WAITS.to_owned())
                }
                Standing::Waits => (Obstacle::Claim, WAITS.to_owned()),
                Standing::Lost(words) => (Obstacle::Volume, words),
            };
            stuck.push((name.clone(), of(claim, is_new, pod.created)));
        }
    }
    if !stuck.is_empty() {
        let pods = Arc::make_mut(&mut pods);
        for (name, new) in stuck {
            if let Some(pod) = pods.get_mut(&name) {
                // A failure that is final replaces one that may pass.
                let before = pod.stuck.as_ref().map(|stuck| stuck.obstacle);
                if before.is_none_or(|before| before == Obstacle::Claim) {
                    pod.stuck = Some(Arc::new(new));
                }
            }
        }
    }
    (pods, asks)
}

fn of(claim: String, (obstacle, message): (Obstacle, String), since: Option<Timestamp>) -> Stuck {
    Stuck {
        obstacle,
        container: claim,
        message,
        since,
    }
}

fn standing(
    storage: &impl Storage,
    name: &str,
    pod_name: &str,
    pod: &PodView,
    node: &str,
) -> Standing {
    let Some(claim) = storage.claim(name) else {
        return Standing::Waits;
    };
    match claim.pod() {
        Some(owner) if owner.uid == pod.uid => {}
        // It belongs to the previous pod, and goes with that pod.
        Some(owner) if owner.name == pod_name => return Standing::Waits,
        _ => {
            return Standing::Lost(
                "is somebody else's: delete it, or rename the volume".to_owned(),
            );
        }
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Standing::Waits;
    }
    if claim.status.phase == "Lost" {
        return Standing::Lost(format!("has lost its volume {:?}", claim.spec.volume_name));
    }
    if claim.is_bound() {
        let Some(volume) = storage.volume(&claim.spec.volume_name) else {
            return Standing::Waits;
        };
        let labels = storage.node_labels(node);
        return match labels.is_none_or(|labels| is_reached(&volume, node, labels)) {
            true => Standing::Bound,
            false => Standing::Lost(format!(
                "has volume {:?}, which node {node:?} does not reach: use a StorageClass with volumeBindingMode WaitForFirstConsumer",
                volume.name()
            )),
        };
    }
    let class = storage.class(claim.class());
    let binds_late = class.is_some_and(|class| class.binds_late());
    match claim.selected_node() {
        _ if !claim.is_free() || !binds_late => Standing::Waits,
        Some(selected) if selected == node => Standing::Waits,
        None if claim.plan() == Some(&pod.plan) => Standing::Lost(format!(
            "could not be provisioned for node {node:?}: the claim's events say why"
        )),
        _ => Standing::Ask(Ask {
            claim,
            node: node.to_owned(),
            plan: pod.plan.clone(),
        }),
    }
}

fn is_reached(
    volume: &SlimVolume,
    name: &str,
    labels: std::collections::BTreeMap<String, String>,
) -> bool {
    let mut node = Node::new(NodeName::new(name), Resources::new());
    node.labels = labels;
    let constraints = Constraints {
        volumes: volumes::reach(volume),
        ..Constraints::default()
    };
    constraints.are_met_by(&node)
}

/// Writes to each claim the node of its pod. If admission refuses the write, the waiting pod shows
/// the claim.
pub(super) async fn ask(
    commands: &Commands,
    context: &Context,
    job: &Key,
    asks: &[Ask],
) -> Result<(), WriteError> {
    let writes = asks.iter().map(|ask| one(commands, context, job, ask));
    let writes: Vec<_> = writes.collect();
    stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn one(
    commands: &Commands,
    context: &Context,
    job: &Key,
    ask: &Ask,
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
            context.claim_answered(&Key::new(&job.namespace, name), asked);
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
