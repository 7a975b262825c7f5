//! A compiled job: every object that it becomes.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use trellis_api::{PodGroup, ValidatedJob};

use crate::network::{self, Openings};
use crate::source::Source;
use crate::{CompiledGroup, Demand, framework, pod_group, service};

/// Every object that a job becomes, in the order in which they are created:
/// Service, NetworkPolicy, ConfigMaps, PodGroup, and once it has a place, pods.
///
/// It keeps what they are made of, and makes each when it is asked for, the same
/// every time: of ten thousand jobs that wait, all but a few are asked for nothing.
#[derive(Clone, Debug)]
pub struct CompiledJob {
    pub(crate) source: Arc<Source>,
    pub(crate) groups: Vec<CompiledGroup>,
    pub(crate) demands: BTreeSet<Demand>,
    pub(crate) hash: String,
}

impl CompiledJob {
    /// The job that was compiled.
    #[must_use]
    pub fn job(&self) -> &ValidatedJob {
        &self.source.job
    }

    /// The headless Service.
    #[must_use]
    pub fn service(&self) -> Service {
        service::build(self.job(), &self.groups)
    }

    /// The NetworkPolicy.
    #[must_use]
    pub fn network_policy(&self) -> NetworkPolicy {
        let network = self.job().spec().network.as_ref();
        let openings = Openings::new(network, &self.source.surroundings);
        network::build(self.job(), &openings, &self.source.settings)
    }

    /// The ConfigMaps that the framework's pods read.
    #[must_use]
    pub fn config_maps(&self) -> Vec<ConfigMap> {
        framework::config_maps(self.job().spec().framework())
    }

    /// The PodGroup, without status.
    #[must_use]
    pub fn pod_group(&self) -> PodGroup {
        pod_group::build(self.job(), &self.groups, &self.source.surroundings)
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
        &self.source.surroundings.queue
    }

    /// The job's priority: higher goes first.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.source.surroundings.priority
    }
}
