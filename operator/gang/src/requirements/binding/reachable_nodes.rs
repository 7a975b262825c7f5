//! Nodes that can run the pods of a claim that is not bound yet. Pure.

use std::borrow::Borrow;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use trellis_scheduler::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};

use super::volume_matching::find_candidates;
use crate::observed::{SlimClaim, SlimStorageClass, SlimVolume};
use crate::requirements::volumes;
use crate::requirements::volumes::VolumeRequirement;

/// Returns the node requirements of the claim: the node reaches one of the volumes to which the
/// claim may be bound, or a volume can be provisioned there. None if there is no such volume.
#[must_use]
pub fn unbound_claim_requirement<V: Borrow<SlimVolume>>(
    claim: &SlimClaim,
    class: &SlimStorageClass,
    all: &[V],
) -> Option<VolumeRequirement> {
    let found = find_candidates(claim, all);
    let is_reserved = found.iter().any(|volume| volume.spec.claim_ref.is_some());
    let mut reaches: Vec<_> = found.into_iter().map(volumes::volume_node_terms).collect();
    if !is_reserved {
        reaches.extend(provisioning_terms(claim, class));
    }
    if reaches.is_empty() {
        return None;
    }
    Some(VolumeRequirement {
        node_terms: volumes::union_terms(reaches).into_iter().collect(),
        one_node: is_single_node(claim),
    })
}

/// Returns true if the claim's access modes allow only one node to mount its volume.
pub(super) fn is_single_node(claim: &SlimClaim) -> bool {
    let modes = &claim.spec.access_modes;
    let is_shared = |mode: &String| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
    !modes.is_empty() && !modes.iter().any(is_shared)
}

/// Returns the node requirements of the class for provisioning a volume. None if it provisions
/// none.
pub fn provisioning_terms(
    claim: &SlimClaim,
    class: &SlimStorageClass,
) -> Option<Vec<Vec<NodeSelectorTerm>>> {
    if !class.provisions() {
        return None;
    }
    let of_claim = foreign_selected_node(claim).map(|node| {
        vec![NodeSelectorTerm {
            match_expressions: Vec::new(),
            match_fields: vec![in_expression("metadata.name", vec![node.to_owned()])],
        }]
    });
    let of_class = class.allowed_topologies.as_ref();
    let of_class = of_class.filter(|terms| !terms.is_empty());
    let of_class = of_class.map(|terms| terms.iter().map(convert_term).collect());
    Some(of_class.into_iter().chain(of_claim).collect())
}

/// Returns the node that another scheduler has selected for the claim. A node that an earlier plan
/// of ours left there does not count: Trellis selects a node again.
pub(super) fn foreign_selected_node(claim: &SlimClaim) -> Option<&str> {
    claim.selected_node().filter(|_| claim.plan().is_none())
}

/// Converts a term. A term without expressions matches nothing, in either form
/// (`MatchTopologySelectorTerms`).
fn convert_term(term: &TopologySelectorTerm) -> NodeSelectorTerm {
    let expressions = term.match_label_expressions.iter().flatten();
    NodeSelectorTerm {
        match_expressions: expressions
            .map(|e| in_expression(&e.key, e.values.clone()))
            .collect(),
        match_fields: Vec::new(),
    }
}

fn in_expression(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: NodeSelectorOperator::In,
        values,
    }
}
