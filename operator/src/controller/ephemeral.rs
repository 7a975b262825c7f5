//! The claims that come with pods: generic ephemeral volumes (KEP-1698). kube-controller-manager
//! makes the claim once its pod is there, and nobody but whoever chose the pod's node can say where
//! its volume is to be. A pod that has its node does not start before.
//!
//! What a claim needs is read off the claim: one that bears the pod's plan and no node any more was
//! refused by who provisions. So a new leader goes on where the last one was.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use serde_json::json;
use tracing::{info, warn};
use trellis_api::names;
use trellis_scheduler::{Constraints, Node, NodeName, Resources};

use crate::cache::watch::Pods;
use crate::dispatch::commands::{Commands, WriteError};
use crate::dispatch::context::Context;
use crate::gang::binding::Storage;
use crate::gang::key::Key;
use crate::gang::observed::{
    Obstacle, PodPhase, PodView, SELECTED_NODE, SlimClaim, SlimVolume, Stuck,
};
use crate::gang::volumes;

/// Who makes it, and who its volume, say so where they cannot.
const WAITS: &str = "is not bound yet: its events say why, or those of the pod";
/// Claims of one job that are written at once.
const AT_ONCE: usize = 16;

/// A claim whose volume is to be provisioned where its pod is.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    claim: Arc<SlimClaim>,
    node: String,
    plan: String,
}

/// How the claim of a pod's own does.
#[derive(Clone, Debug)]
enum Standing {
    /// It is bound, and reached.
    Bound,
    /// It waits to be told where its pod is.
    Ask(Ask),
    /// It is on its way: kube-controller-manager makes it, and somebody provisions its volume.
    Waits,
    /// It comes to nothing where its pod is.
    Lost(String),
}

/// Looks at the claims of pods that have not begun. Gives the pods, of which those that wait for a
/// claim say so, and which claims are to be asked for. `own`: task groups with the volumes that
/// each of their pods has for itself.
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
                // What can never be is worth more than what may still come.
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
        // Of the pod before, with which it goes.
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

/// Says for each claim on which node its pod is. A claim that admission refuses is told of by its
/// pod, which waits for it.
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
