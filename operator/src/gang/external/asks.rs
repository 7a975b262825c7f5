//! What an external gang asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::jiff::Timestamp;
use trellis_api::pod_group::PlannedPod;
use trellis_policies::cedar::AuthorizedPods;
use trellis_scheduler::{Constraints, Resources};

use super::own_claims;
use super::total::Accounts;
use crate::gang::binding::Mounts;
use crate::gang::observed::JudgedSpec;
use crate::gang::quota::JobLimits;

/// Pods that ask for the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike {
    /// What one of them takes of its node.
    pub request: Resources,
    /// Which nodes will do for each, those that reach its volumes.
    pub constraints: Constraints,
    /// A claim keeps all of them on one node.
    pub one_node: bool,
    /// Which they are.
    pub pods: Vec<PlannedPod>,
}

/// What an external gang asks for, and that it may.
#[derive(Clone, Debug, PartialEq)]
pub struct Asks {
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i32,
    /// It may have others leave by that: so says the PriorityClass that the priority is of.
    pub preempts: bool,
    /// When it began to wait.
    pub submitted: Timestamp,
    /// Its pods.
    pub groups: Vec<Alike>,
    /// A claim keeps all of them on one node.
    pub one_node: bool,
    /// Claims that each pod mounts, by its name.
    pub claims: BTreeMap<String, BTreeSet<String>>,
    /// Longest time that its pods are given to stop, in seconds.
    pub grace: i64,
    /// How long they run at most, in seconds. None: one of them may run for ever.
    pub active_seconds: Option<i64>,
    /// As one more of a gang that has its place.
    pub joins: bool,
    /// Policies allow it.
    pub allowed: AuthorizedPods,
    /// The specs that they allow, by the names of the pods.
    pub judged: BTreeMap<String, JudgedSpec>,
    /// The limits of QuotaPolicies that it draws on.
    pub limits: Arc<JobLimits>,
    /// The ServiceAccounts by which it does.
    pub accounts: Accounts,
}

impl Asks {
    /// All of its pods.
    pub fn pods(&self) -> impl Iterator<Item = &PlannedPod> {
        self.groups.iter().flat_map(|group| &group.pods)
    }

    /// True if both ask for the same of the engine, whoever allowed it, and by which limits.
    #[must_use]
    pub fn is_same_demand(&self, other: &Self) -> bool {
        self.demand() == other.demand()
    }

    fn demand(&self) -> impl PartialEq {
        let of = (&self.queue, self.priority, self.preempts);
        let pods = (&self.groups, self.one_node, &self.claims);
        (of, pods, self.grace, self.active_seconds)
    }

    /// What its pods mount, on these nodes.
    #[must_use]
    pub fn mounts<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Mounts {
        mounts(&self.claims, nodes)
    }
}

/// What pods mount on their nodes, by the claims of each.
#[must_use]
pub fn mounts<'a>(
    claims: &BTreeMap<String, BTreeSet<String>>,
    nodes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Mounts {
    let mut mounts = Mounts::new();
    for (pod, node) in nodes {
        for claim in claims.get(pod).into_iter().flatten() {
            let mount = mounts.entry(claim.clone()).or_default();
            mount.nodes.insert(node.to_owned());
            mount.pods = mount.pods.saturating_add(1);
        }
    }
    mounts
}

/// The claims that a pod mounts: those that its ephemeral volumes are, too, which are made with
/// it.
#[must_use]
pub fn claims(pod: &str, spec: &PodSpec) -> BTreeSet<String> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(own_claims::name(pod, &volume.name)),
                (None, None) => None,
            },
        )
        .collect()
}
