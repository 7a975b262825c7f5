//! Claims that the pods of a plan mount, with the nodes of these pods. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_compiler::{CompiledGroup, CompiledJob};

use crate::admitted_pod::AdmittedPod;

/// Mounts by the name of the claim.
pub type ClaimMounts = BTreeMap<String, ClaimMount>;

/// Nodes of the pods that mount one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMount {
    /// Their nodes.
    pub nodes: BTreeSet<String>,
    /// Number of those pods.
    pub pods: u64,
}

/// Returns the claims of the pods that are planned for these nodes: group, node and number of pods.
/// `counted` holds the pods after admission, by group, where they are known.
pub fn collect_mounts<'a>(
    job: &CompiledJob,
    counted: &BTreeMap<String, AdmittedPod>,
    pods: impl IntoIterator<Item = (&'a str, &'a str, u64)>,
) -> ClaimMounts {
    let claims: BTreeMap<&str, BTreeSet<String>> = job
        .groups()
        .iter()
        .map(|group| (group.name(), group_claims(group, counted)))
        .collect();
    let mut mounts = ClaimMounts::new();
    for (group, node, count) in pods {
        for claim in claims.get(group).into_iter().flatten() {
            let mount = mounts.entry(claim.clone()).or_default();
            mount.nodes.insert(node.to_owned());
            mount.pods = mount.pods.saturating_add(count);
        }
    }
    mounts
}

fn group_claims(
    group: &CompiledGroup,
    counted: &BTreeMap<String, AdmittedPod>,
) -> BTreeSet<String> {
    match counted.get(group.name()) {
        Some(admitted) => admitted.claims.clone(),
        None => AdmittedPod::from_group(group).claims,
    }
}
