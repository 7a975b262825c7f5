//! Demand of an external gang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::jiff::Timestamp;
use trellis_api::pod_group::PlannedPod;
use trellis_policies::cedar::AuthorizedExternalPods;
use trellis_scheduler::{Constraints, Resources};

use super::ephemeral_claims;
use super::external_demand::ServiceAccounts;
use crate::observed::JudgedSpec;
use crate::quota::JobLimits;
use crate::requirements::binding::ClaimMounts;

/// Pods with equal requirements.
#[derive(Clone, Debug, PartialEq)]
pub struct AlikePods {
    /// Resources that one pod requests.
    pub request: Resources,
    /// Node requirements of each pod, including those of its volumes.
    pub constraints: Constraints,
    /// True if a claim requires all pods on one node.
    pub one_node: bool,
    /// The pods.
    pub pods: Vec<PlannedPod>,
}

/// Demand of an external gang, and the policy decision that allows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalRequest {
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i32,
    /// True if the gang may preempt other gangs by its priority, according to the PriorityClass.
    pub preempts: bool,
    /// When the gang began to wait.
    pub submitted: Timestamp,
    /// The gang's pods, in groups with equal requirements.
    pub groups: Vec<AlikePods>,
    /// True if a claim requires all pods on one node.
    pub one_node: bool,
    /// Claims that each pod mounts, by pod name.
    pub claims: BTreeMap<String, BTreeSet<String>>,
    /// Longest termination grace period of its pods, in seconds.
    pub grace: i64,
    /// Longest run time of its pods, in seconds. None if a pod may run forever.
    pub active_seconds: Option<i64>,
    /// True if this is one pod that joins a placed gang.
    pub joins_gang: bool,
    /// Proof that policies allow the gang.
    pub authorization: AuthorizedExternalPods,
    /// The specs that the policies allow, by pod name.
    pub judged_specs: BTreeMap<String, JudgedSpec>,
    /// The limits of QuotaPolicies that the gang counts against.
    pub limits: Arc<JobLimits>,
    /// The ServiceAccounts that determine those limits.
    pub accounts: ServiceAccounts,
}

impl ExternalRequest {
    /// Returns all pods of the gang.
    pub fn pods(&self) -> impl Iterator<Item = &PlannedPod> {
        self.groups.iter().flat_map(|group| &group.pods)
    }

    /// Returns true if both need the same from the engine. Policies and limits may differ.
    #[must_use]
    pub fn is_same_demand(&self, other: &Self) -> bool {
        self.demand() == other.demand()
    }

    fn demand(&self) -> impl PartialEq {
        let rank = (&self.queue, self.priority, self.preempts);
        let pods = (&self.groups, self.one_node, &self.claims);
        (rank, pods, self.grace, self.active_seconds)
    }

    /// Returns the claims that the pods mount on these nodes.
    #[must_use]
    pub fn claim_mounts<'a>(
        &self,
        nodes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> ClaimMounts {
        collect_mounts(&self.claims, nodes)
    }
}

/// Returns the claims that pods mount on their nodes; `claims` holds the claims of each pod.
#[must_use]
pub fn collect_mounts<'a>(
    claims: &BTreeMap<String, BTreeSet<String>>,
    nodes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> ClaimMounts {
    let mut mounts = ClaimMounts::new();
    for (pod, node) in nodes {
        for claim in claims.get(pod).into_iter().flatten() {
            let mount = mounts.entry(claim.clone()).or_default();
            mount.nodes.insert(node.to_owned());
            mount.pods = mount.pods.saturating_add(1);
        }
    }
    mounts
}

/// Returns the claims that a pod mounts, including those of its ephemeral volumes, which are
/// created with the pod.
#[must_use]
pub fn pod_claims(pod: &str, spec: &PodSpec) -> BTreeSet<String> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(ephemeral_claims::claim_name(pod, &volume.name)),
                (None, None) => None,
            },
        )
        .collect()
}
