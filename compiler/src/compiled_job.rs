//! A compiled job: every object that it becomes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::{PodGroup, QueueResources, ValidatedJob, names};

use crate::compile_input::CompileInput;
use crate::objects::network_policy::{self, ResolvedTrafficRules};
use crate::objects::{external_secrets, pod_group, service};
use crate::{CompiledGroup, Demand, HashedProfile, RequiredObject, framework, required_objects};

/// Every object of a job, in the order of creation: Service, NetworkPolicy, ConfigMaps,
/// ExternalSecrets, PodGroup, and pods once the job is placed.
///
/// The objects are built on demand from their common source, the same each time: of ten thousand
/// pending jobs, only a few ever need them.
#[derive(Clone, Debug)]
pub struct CompiledJob {
    pub(crate) source: Arc<CompileInput>,
    pub(crate) groups: Vec<CompiledGroup>,
    pub(crate) demands: BTreeSet<Demand>,
    pub(crate) hash: String,
}

impl CompiledJob {
    /// The job that was compiled.
    #[must_use]
    pub fn job(&self) -> &ValidatedJob {
        self.source.job.job()
    }

    /// The amounts for each GPU that its queue and the queues above it stated.
    #[must_use]
    pub fn queue_resources(&self) -> &QueueResources {
        self.source.job.queue_resources()
    }

    /// The headless Service, and the leader's if its framework gives it one.
    #[must_use]
    pub fn services(&self) -> Vec<Service> {
        let headless = service::build(self.job(), &self.groups);
        let leader = service::build_for_leader(self.job(), &self.groups);
        std::iter::once(headless).chain(leader).collect()
    }

    /// The NetworkPolicy.
    #[must_use]
    pub fn network_policy(&self) -> NetworkPolicy {
        let openings = ResolvedTrafficRules::new(self.job(), &self.source.surroundings);
        network_policy::build(self.job(), &openings, &self.source.settings)
    }

    /// The ConfigMaps that the framework's pods read.
    #[must_use]
    pub fn config_maps(&self) -> Vec<ConfigMap> {
        framework::config_maps(&self.source.gang_facts())
    }

    /// True if [`Self::config_maps`] are any.
    #[must_use]
    pub fn has_config_map(&self) -> bool {
        framework::has_config_map(self.job().spec().framework())
    }

    /// Why its ConfigMaps cannot be created, in words: field, rule and fix. None: they can.
    #[must_use]
    pub fn config_map_problem(&self) -> Option<String> {
        self.has_config_map()
            .then(|| framework::config_map_problem(&self.source.gang_facts()))
            .flatten()
    }

    /// Name of the Secret with the job's key, if its framework needs one.
    #[must_use]
    pub fn key_secret_name(&self) -> Option<String> {
        framework::has_key(self.job().spec().framework())
            .then(|| names::ssh_secret_name(self.job().name(), self.job().uid()))
    }

    /// The Secret with a key made of these bytes, which must be secret. None if the framework needs
    /// no key, and for one in 2^260 values that are no key.
    ///
    /// The key is in no hash: a job with a different key is still the same job.
    #[must_use]
    pub fn key_secret(&self, random: [u8; 66]) -> Option<Secret> {
        framework::key_secret(self.job(), random)
    }

    /// The ExternalSecrets of `spec.secrets`, in its order.
    #[must_use]
    pub fn external_secrets(&self) -> Vec<ExternalSecret> {
        external_secrets::build(self.job())
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

    /// Everything that the objects make use of. Policies decide about each demand.
    #[must_use]
    pub fn demands(&self) -> &BTreeSet<Demand> {
        &self.demands
    }

    /// The objects that its pods cannot start without, each with the field that names it.
    #[must_use]
    pub fn required_objects(&self) -> BTreeMap<RequiredObject, String> {
        required_objects::collect_required_objects(self)
    }

    /// Hash of every object that would be created: 16 characters. It is the same for every attempt,
    /// plan and node, and changes with any object.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Name of the queue that the job is in.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.source.surroundings.queue
    }

    /// The RuntimeProfile that the job was compiled with.
    #[must_use]
    pub fn profile(&self) -> Option<&Arc<HashedProfile>> {
        self.source.surroundings.profile.as_ref()
    }

    /// The job's priority: higher goes first.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.source.surroundings.priority
    }
}
