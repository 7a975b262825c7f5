//! Facts of the job that its pods get: ranks and the address of rank 0.

use std::collections::BTreeMap;

use trellis_api::job::TaskGroup;
use trellis_api::{ValidatedJob, names};

use crate::Settings;
use crate::environment::VariableValue;

/// Facts of the whole job that every pod gets.
pub(crate) struct GangFacts<'a> {
    pub job: &'a ValidatedJob,
    /// Pods in the world: all but evaluators and groups outside the gang. Elastic groups count with
    /// their maximum.
    pub world_size: u32,
    /// Smallest world size that the job works with.
    pub min_world_size: u32,
    /// Full DNS name of the pod of rank 0.
    pub leader_address: String,
    /// True if every pod of the world runs one training process.
    pub one_process_per_pod: bool,
    /// Domain that follows a pod's name in its full DNS name.
    domain: String,
    first_ranks: BTreeMap<&'a str, u32>,
}

impl<'a> GangFacts<'a> {
    pub fn new(job: &'a ValidatedJob, settings: &Settings) -> Self {
        let spec = job.spec();

        let mut first_ranks = BTreeMap::new();
        let mut next = 0_u32;
        for group in spec.groups_by_rank() {
            first_ranks.insert(group.name.as_str(), next);
            next = next.saturating_add(group.replicas());
        }
        let leader = spec
            .leader_group()
            .map(|group| names::pod_name(job.name(), group, 0))
            .unwrap_or_default();
        let domain = format!(
            "{}.{}.svc.{}",
            job.name(),
            job.namespace(),
            settings.cluster_domain
        );
        let world = spec.task_groups.iter().filter(|g| g.is_in_world());
        let least = world.fold(0_u32, |sum, g| sum.saturating_add(g.gang_size()));
        let mut world = spec.task_groups.iter().filter(|g| g.is_in_world());
        Self {
            job,
            world_size: spec.world_size(),
            min_world_size: least,
            leader_address: format!("{leader}.{domain}"),
            one_process_per_pod: world.all(|g| g.gpus() <= 1),
            domain,
            first_ranks,
        }
    }

    /// True if the job works with fewer pods than it asks for.
    pub fn is_elastic(&self) -> bool {
        self.min_world_size < self.world_size
    }

    /// Rank of the first pod of a group; its other pods follow by index.
    pub fn first_rank(&self, group: &TaskGroup) -> u32 {
        self.first_ranks
            .get(group.name.as_str())
            .copied()
            .unwrap_or_default()
    }

    /// The groups in the order of their ranks.
    pub fn groups_by_rank(&self) -> Vec<&'a TaskGroup> {
        self.job.spec().groups_by_rank()
    }

    /// Returns the full DNS name of the first pod of each pod's slice, for slices of this many pods.
    pub(crate) fn slice_leader_address(&self, group: &TaskGroup, pods: u32) -> VariableValue {
        VariableValue::SliceStart {
            before: format!("{}-{}-", self.job.name(), group.name),
            pods,
            after: format!(".{}", self.domain),
        }
    }

    /// Full DNS names of the pods of a group, by index.
    pub(crate) fn pod_addresses(&self, group: &TaskGroup) -> impl Iterator<Item = String> {
        (0..group.replicas()).map(|index| {
            let pod = names::pod_name(self.job.name(), &group.name, index);
            format!("{pod}.{}", self.domain)
        })
    }
}
