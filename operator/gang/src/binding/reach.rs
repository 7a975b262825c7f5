//! Nodes that can run the pods of a claim that is not bound yet. Pure.

use std::borrow::Borrow;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use trellis_scheduler::{Expression, NodeSelectorTerm, Operator};

use super::matching::candidates;
use crate::observed::{SlimClaim, SlimStorageClass, SlimVolume};
use crate::volumes;
use crate::volumes::Mounted;

/// Node requirements of the claim: the node reaches one of the volumes to which the claim may be
/// bound, or a volume can be provisioned there. None if there is no such volume.
#[must_use]
pub fn reach<V: Borrow<SlimVolume>>(
    claim: &SlimClaim,
    class: &SlimStorageClass,
    all: &[V],
) -> Option<Mounted> {
    let found = candidates(claim, all);
    let given = found.iter().any(|volume| volume.spec.claim_ref.is_some());
    let mut reaches: Vec<_> = found.into_iter().map(volumes::reach).collect();
    if !given {
        reaches.extend(provisioned(claim, class));
    }
    if reaches.is_empty() {
        return None;
    }
    Some(Mounted {
        reach: volumes::any(reaches).into_iter().collect(),
        one_node: one_node(claim),
    })
}

/// True if the claim's access modes allow only one node to mount its volume.
pub(super) fn one_node(claim: &SlimClaim) -> bool {
    let modes = &claim.spec.access_modes;
    let is_shared = |mode: &String| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
    !modes.is_empty() && !modes.iter().any(is_shared)
}

/// Node requirements of the class for provisioning a volume. None if it provisions none.
pub fn provisioned(
    claim: &SlimClaim,
    class: &SlimStorageClass,
) -> Option<Vec<Vec<NodeSelectorTerm>>> {
    if !class.provisions() {
        return None;
    }
    let of_claim = selected_by_another(claim).map(|node| {
        vec![NodeSelectorTerm {
            match_expressions: Vec::new(),
            match_fields: vec![is_in("metadata.name", vec![node.to_owned()])],
        }]
    });
    let of_class = class.allowed_topologies.as_ref();
    let of_class = of_class.filter(|terms| !terms.is_empty());
    let of_class = of_class.map(|terms| terms.iter().map(term).collect());
    Some(of_class.into_iter().chain(of_claim).collect())
}

/// The node that another scheduler has selected for the claim. A node that an earlier plan of ours
/// has left there is selected anew.
pub(super) fn selected_by_another(claim: &SlimClaim) -> Option<&str> {
    claim.selected_node().filter(|_| claim.plan().is_none())
}

/// A term without expressions matches nothing, in either form (`MatchTopologySelectorTerms`).
fn term(term: &TopologySelectorTerm) -> NodeSelectorTerm {
    let expressions = term.match_label_expressions.iter().flatten();
    NodeSelectorTerm {
        match_expressions: expressions
            .map(|e| is_in(&e.key, e.values.clone()))
            .collect(),
        match_fields: Vec::new(),
    }
}

fn is_in(key: &str, values: Vec<String>) -> Expression {
    Expression {
        key: key.to_owned(),
        operator: Operator::In,
        values,
    }
}
