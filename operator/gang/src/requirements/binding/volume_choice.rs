//! Chooses the volumes for the claims of pods that have their nodes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trellis_api::Reason;
use trellis_scheduler::{Constraints, Node, NodeSelectorTerm};

use super::mounts::{ClaimMount, ClaimMounts};
use super::reachable_nodes::{foreign_selected_node, is_single_node, provisioning_terms};
use super::volume_matching::find_candidates;
use crate::observed::{SlimClaim, SlimStorageClass, SlimVolume};
use crate::requirements::volumes;

/// Number of nodes that a message names.
const MAX_NAMED_NODES: usize = 3;

/// The claims that pods mount, and the candidates to bind them to.
#[derive(Clone, Debug, Default)]
pub struct BindingCandidates {
    /// The claims, by name.
    pub claims: BTreeMap<String, Arc<SlimClaim>>,
    /// Their classes, by name.
    pub classes: BTreeMap<String, Arc<SlimStorageClass>>,
    /// All volumes.
    pub volumes: Vec<Arc<SlimVolume>>,
    /// The nodes of the pods, by name.
    pub nodes: BTreeMap<String, Node>,
    /// Volumes that other claims are about to take.
    pub reserved_volumes: BTreeSet<String>,
}

/// The next step for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStep {
    /// The claim is bound, and all nodes reach its volume.
    Bound,
    /// The controller manager or a provisioner is binding the claim.
    Wait,
    /// Give this volume to the claim.
    BindVolume(String),
    /// Provision a volume for this node.
    Provision(String),
}

/// Why the pods cannot get their volumes on their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingFailure {
    /// The reason.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
    /// Nodes without which the claims might get their volumes.
    pub nodes: BTreeSet<String>,
}

/// Chooses a step for each claim, smallest claim first. If two claims fit the same volume, the
/// larger claim may take a larger volume.
///
/// # Errors
/// The first claim whose volume the pods' nodes cannot reach.
pub fn choose_volumes(
    mounts: &ClaimMounts,
    stock: &BindingCandidates,
) -> Result<Vec<(String, BindingStep)>, BindingFailure> {
    let size = |name: &String| stock.claims.get(name).map(|claim| claim.amount());
    let mut sorted: Vec<_> = mounts.iter().collect();
    sorted.sort_by_key(|(name, _)| (size(name), *name));
    let mut reserved = stock.reserved_volumes.clone();
    let mut steps = Vec::with_capacity(sorted.len());
    for (name, mount) in sorted {
        let step = stock.choose_step(name, mount, &reserved)?;
        if let BindingStep::BindVolume(volume) = &step {
            reserved.insert(volume.clone());
        }
        steps.push((name.clone(), step));
    }
    Ok(steps)
}

impl BindingCandidates {
    fn choose_step(
        &self,
        name: &str,
        mount: &ClaimMount,
        reserved: &BTreeSet<String>,
    ) -> Result<BindingStep, BindingFailure> {
        let stuck = |reason: Reason, problem: String, nodes: BTreeSet<String>| BindingFailure {
            reason,
            message: format!("PersistentVolumeClaim {name:?} {problem}"),
            nodes,
        };
        let claim = self.claims.get(name);
        let claim = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let Some(claim) = claim else {
            let problem = "is not there any more".to_owned();
            return Err(stuck(Reason::ClaimNotFound, problem, BTreeSet::new()));
        };
        let unbound = |problem: String, nodes| stuck(Reason::ClaimNotBound, problem, nodes);
        if claim.status.phase == "Lost" {
            let problem = format!("has lost its volume {:?}", claim.spec.volume_name);
            return Err(unbound(problem, BTreeSet::new()));
        }
        if claim.is_bound() {
            let Some(volume) = self.volume(&claim.spec.volume_name) else {
                return Ok(BindingStep::Wait);
            };
            return match self.unreachable_nodes(&volumes::volume_node_terms(volume), mount) {
                unreachable if unreachable.is_empty() => Ok(BindingStep::Bound),
                unreachable => {
                    let volume = volume.name();
                    let problem = format!(
                        "has volume {volume:?}, which {} not reach",
                        format_nodes(&unreachable)
                    );
                    Err(unbound(problem, unreachable))
                }
            };
        }
        let class = self.classes.get(claim.class());
        let Some(class) = class.filter(|class| claim.is_free() && class.binds_on_first_consumer())
        else {
            return Ok(BindingStep::Wait);
        };
        if claim.has_mode("ReadWriteOncePod") && mount.pods > 1 {
            let problem = format!("is ReadWriteOncePod, and {} pods mount it", mount.pods);
            return Err(unbound(problem, BTreeSet::new()));
        }
        if is_single_node(claim) && mount.nodes.len() > 1 {
            let problem = format!(
                "is ReadWriteOnce, and the {} pods that mount it would be on {} nodes: they must be on one",
                mount.pods,
                mount.nodes.len()
            );
            return Err(unbound(problem, BTreeSet::new()));
        }
        if claim
            .selected_node()
            .is_some_and(|node| mount.nodes.contains(node))
        {
            return Ok(BindingStep::Wait);
        }
        self.choose_volume(claim, class, mount, reserved)
            .map_err(|unreachable| {
                unbound(
                    self.explain_failure(claim, mount, &unreachable),
                    unreachable,
                )
            })
    }

    /// Returns the smallest volume that all nodes reach, else a volume to provision for the first
    /// node. The error holds the nodes without which there might be a volume.
    fn choose_volume(
        &self,
        claim: &SlimClaim,
        class: &SlimStorageClass,
        mount: &ClaimMount,
        reserved: &BTreeSet<String>,
    ) -> Result<BindingStep, BTreeSet<String>> {
        let mut fewest_unreachable: Option<BTreeSet<String>> = None;
        let mut note_unreachable = |unreachable: BTreeSet<String>| {
            if fewest_unreachable
                .as_ref()
                .is_none_or(|fewest| unreachable.len() < fewest.len())
            {
                fewest_unreachable = Some(unreachable);
            }
        };
        let found = find_candidates(claim, &self.volumes);
        for volume in found
            .iter()
            .filter(|volume| !reserved.contains(volume.name()))
        {
            let unreachable = self.unreachable_nodes(&volumes::volume_node_terms(volume), mount);
            match (unreachable.is_empty(), &volume.spec.claim_ref) {
                (true, Some(_)) => return Ok(BindingStep::Wait),
                (true, None) => return Ok(BindingStep::BindVolume(volume.name().to_owned())),
                (false, _) => note_unreachable(unreachable),
            }
        }
        let is_reserved = found.iter().any(|volume| volume.spec.claim_ref.is_some());
        if !is_reserved && let Some(reach) = provisioning_terms(claim, class) {
            let unreachable = self.unreachable_nodes(&reach, mount);
            let first = mount.nodes.first().filter(|_| unreachable.is_empty());
            if let Some(node) = first {
                return Ok(BindingStep::Provision(node.clone()));
            }
            note_unreachable(unreachable);
        }
        // If there is no volume at all, other nodes would not help.
        Err(fewest_unreachable.unwrap_or_default())
    }

    fn explain_failure(
        &self,
        claim: &SlimClaim,
        mount: &ClaimMount,
        unreachable: &BTreeSet<String>,
    ) -> String {
        if let Some(node) = foreign_selected_node(claim) {
            return format!(
                "is being provisioned for node {node:?}, and its pods would be elsewhere"
            );
        }
        match unreachable.is_empty() {
            true => no_volume_message(claim),
            false => format!(
                "is not bound, and no volume that it may have is reached from all {} of its pods' nodes: {} not reach the nearest",
                mount.nodes.len(),
                format_nodes(unreachable)
            ),
        }
    }

    fn volume(&self, name: &str) -> Option<&SlimVolume> {
        let mut volumes = self.volumes.iter().map(AsRef::as_ref);
        volumes.find(|volume: &&SlimVolume| volume.name() == name)
    }

    /// Returns the nodes that do not reach the volume. Ignores unknown nodes.
    fn unreachable_nodes(
        &self,
        reach: &[Vec<NodeSelectorTerm>],
        mount: &ClaimMount,
    ) -> BTreeSet<String> {
        let constraints = Constraints {
            volumes: reach.to_vec(),
            ..Constraints::default()
        };
        let is_far = |name: &&String| {
            let node = self.nodes.get(*name);
            node.is_some_and(|node| !constraints.are_met_by(node))
        };
        mount.nodes.iter().filter(is_far).cloned().collect()
    }
}

/// Returns the message that there is no volume for the claim.
#[must_use]
pub fn no_volume_message(claim: &SlimClaim) -> String {
    let size = claim.spec.resources.requests.get("storage");
    let size = size.map_or("", |quantity| quantity.0.as_str());
    format!(
        "is not bound: no PersistentVolume of its StorageClass {:?} is free that has {size} and access modes {}, and the class provisions none: create one, or correct the claim",
        claim.class(),
        claim.spec.access_modes.join(", ")
    )
}

fn format_nodes(nodes: &BTreeSet<String>) -> String {
    let named: Vec<_> = nodes
        .iter()
        .take(MAX_NAMED_NODES)
        .map(|n| format!("{n:?}"))
        .collect();
    let more = if nodes.len() > MAX_NAMED_NODES {
        ", ..."
    } else {
        ""
    };
    match nodes.len() {
        1 => format!("node {} does", named.join("")),
        _ => format!("nodes {}{more} do", named.join(", ")),
    }
}

#[cfg(test)]
mod tests;
