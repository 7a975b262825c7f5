//! Which claims the pods of a plan mount, and where. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_compiler::{CompiledGroup, CompiledJob};

use crate::gang::admitted::Admitted;

/// By the name of the claim.
pub type Mounts = BTreeMap<String, Mount>;

/// Where the pods are that mount a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Their nodes.
    pub nodes: BTreeSet<String>,
    /// How many they are.
    pub pods: u64,
}

/// What pods mount that are to be on these nodes: group, node and how many. `counted` is what
/// admission makes of them, by group, where that is known.
pub fn mounts<'a>(
    job: &CompiledJob,
    counted: &BTreeMap<String, Admitted>,
    pods: impl IntoIterator<Item = (&'a str, &'a str, u64)>,
) -> Mounts {
    let claims: BTreeMap<&str, BTreeSet<String>> = job
        .groups()
        .iter()
        .map(|group| (group.name(), claims(group, counted)))
        .collect();
    let mut mounts = Mounts::new();
    for (group, node, count) in pods {
        for claim in claims.get(group).into_iter().flatten() {
            let mount = mounts.entry(claim.clone()).or_default();
            mount.nodes.insert(node.to_owned());
            mount.pods = mount.pods.saturating_add(count);
        }
    }
    mounts
}

fn claims(group: &CompiledGroup, counted: &BTreeMap<String, Admitted>) -> BTreeSet<String> {
    match counted.get(group.name()) {
        Some(admitted) => admitted.claims.clone(),
        None => Admitted::unchanged(group).claims,
    }
}
