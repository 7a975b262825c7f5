//! A compiled task group: its pods, one at a time.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerPort, Pod, Toleration};
use trellis_api::job::TaskGroup;
use trellis_api::quantity::Amount;
use trellis_api::{Quantity, names};

use crate::environment::Identity;
use crate::gang::Gang;
use crate::hash::Hasher;
use crate::pod::Template;
use crate::{Demand, Surroundings, demand, resources};

/// Where one pod goes, and on whose orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodPlacement<'a> {
    /// The attempt of the job, from 1.
    pub attempt: i64,
    /// Hash of the plan that placed the pod.
    pub plan: &'a str,
    /// Name of the node.
    pub node: &'a str,
    /// What the pod tolerates because of the flavors that its group is given,
    /// beside what the job asks for.
    pub tolerations: &'a [Toleration],
}

impl PodPlacement<'_> {
    /// No place at all: hashes are taken of it, and what all pods of a group have
    /// in common is read from it.
    pub const NOWHERE: PodPlacement<'static> = PodPlacement {
        attempt: 0,
        plan: "",
        node: "",
        tolerations: &[],
    };
}

/// Identical pods of a job, told apart by an index.
#[derive(Clone, Debug)]
pub struct CompiledGroup {
    job: String,
    name: String,
    replicas: u32,
    first_rank: u32,
    resources: BTreeMap<String, Quantity>,
    request: BTreeMap<String, Amount>,
    template: Template,
    hash: String,
}

impl CompiledGroup {
    pub(crate) fn new(gang: &Gang<'_>, group: &TaskGroup, surroundings: &Surroundings) -> Self {
        let resources = resources::of(group);
        let request = resources
            .iter()
            .map(|(name, quantity)| (name.clone(), resources::amount(quantity)))
            .collect();
        let compiled = Self {
            job: gang.job.name().to_owned(),
            name: group.name.clone(),
            replicas: group.replicas(),
            first_rank: gang.first_rank(group),
            template: Template::new(gang, group, &resources, surroundings),
            resources,
            request,
            hash: String::new(),
        };
        // The first pod bears all that the group's pods have in common, the
        // group's first rank among it.
        let hash = Hasher::default()
            .feed(&compiled.pod(0, &PodPlacement::NOWHERE))
            .feed(&compiled.replicas)
            .finish();
        Self { hash, ..compiled }
    }

    /// Name of the task group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of pods.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// Rank of the group's first pod; the others follow by index.
    #[must_use]
    pub fn first_rank(&self) -> u32 {
        self.first_rank
    }

    /// What one pod requests, by resource name, as it was written.
    #[must_use]
    pub fn resources(&self) -> &BTreeMap<String, Quantity> {
        &self.resources
    }

    /// What one pod requests, by resource name, exactly: CPU in cores, memory
    /// and disk in bytes, devices in pieces.
    #[must_use]
    pub fn request(&self) -> &BTreeMap<String, Amount> {
        &self.request
    }

    /// Name and hostname of a pod, `<job>-<group>-<index>`.
    #[must_use]
    pub fn pod_name(&self, index: u32) -> String {
        names::pod(&self.job, &self.name, index)
    }

    /// The pod of an index from 0 to [`Self::replicas`], placed.
    #[must_use]
    pub fn pod(&self, index: u32, placement: &PodPlacement<'_>) -> Pod {
        let identity = Identity {
            index,
            rank: self.first_rank.saturating_add(index),
            attempt: placement.attempt,
        };
        self.template.pod(self.pod_name(index), identity, placement)
    }

    /// Hash of the group's pods: 16 characters, the same for every attempt and node.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What each pod makes use of.
    pub(crate) fn demands(&self) -> BTreeSet<Demand> {
        let pod = self.pod(0, &PodPlacement::NOWHERE);
        pod.spec.as_ref().map(demand::of_pod).unwrap_or_default()
    }

    pub(crate) fn ports(&self) -> &[ContainerPort] {
        self.template.ports()
    }
}
