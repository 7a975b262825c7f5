//! A compiled job: every object that it becomes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use trellis_api::{PodGroup, ValidatedJob};

use crate::{CompiledGroup, Demand};

/// Every object that a job becomes, in the order in which they are created:
/// Service, NetworkPolicy, ConfigMaps, PodGroup, and once it has a place, pods.
#[derive(Clone, Debug)]
pub struct CompiledJob {
    pub(crate) job: ValidatedJob,
    pub(crate) service: Service,
    pub(crate) network_policy: NetworkPolicy,
    pub(crate) config_maps: Vec<ConfigMap>,
    pub(crate) pod_group: PodGroup,
    pub(crate) groups: Vec<CompiledGroup>,
    pub(crate) demands: BTreeSet<Demand>,
    pub(crate) hash: String,
}

impl CompiledJob {
    /// The job that was compiled.
    #[must_use]
    pub fn job(&self) -> &ValidatedJob {
        &self.job
    }

    /// The headless Service.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The NetworkPolicy.
    #[must_use]
    pub fn network_policy(&self) -> &NetworkPolicy {
        &self.network_policy
    }

    /// The ConfigMaps that the framework's pods read.
    #[must_use]
    pub fn config_maps(&self) -> &[ConfigMap] {
        &self.config_maps
    }

    /// The PodGroup, without status.
    #[must_use]
    pub fn pod_group(&self) -> &PodGroup {
        &self.pod_group
    }

    /// The task groups, in the order of the spec.
    #[must_use]
    pub fn groups(&self) -> &[CompiledGroup] {
        &self.groups
    }

    /// What the objects make use of: what policies decide on.
    #[must_use]
    pub fn demands(&self) -> &BTreeSet<Demand> {
        &self.demands
    }

    /// Hash of every object that would be created: 16 characters. The same for
    /// every attempt, plan and node; another when any object changes.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Name of the queue that the job is in.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.pod_group.spec.queue
    }

    /// The job's priority: higher goes first.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.pod_group.spec.priority
    }
}
