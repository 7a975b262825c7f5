//! The job as its pods know it: who has which rank, and where rank 0 is.

use std::collections::BTreeMap;

use trellis_api::job::{Role, TaskGroup};
use trellis_api::{TrainingJobSpec, ValidatedJob, names};

use crate::Settings;

/// The groups in the order of their ranks: the Coordinator or Launcher first, then
/// workers, servers, and evaluators, who are none of the world, then groups outside the
/// gang; of one role as they stand in the spec.
fn by_rank(spec: &TrainingJobSpec) -> Vec<&TaskGroup> {
    let mut order: Vec<_> = spec.task_groups.iter().collect();
    // Stable: what is equal keeps its order.
    order.sort_by_key(|group| match group.role() {
        _ if !group.is_in_gang() => 4,
        Role::Coordinator | Role::Launcher => 0,
        Role::Worker => 1,
        Role::Server => 2,
        Role::Evaluator => 3,
    });
    order
}

/// Name of the group whose pod of index 0 has rank 0: of the Coordinator or Launcher,
/// else of the first group of workers. None for a spec without
/// groups, which validation refuses.
///
/// ```
/// use trellis_api::TrainingJobSpec;
/// let spec: TrainingJobSpec = serde_json::from_value(serde_json::json!({"taskGroups": [
///     {"name": "worker", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}},
///     {"name": "chief", "role": "Coordinator", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}},
/// ]}))?;
/// assert_eq!(trellis_compiler::leader_group(&spec), Some("chief"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn leader_group(spec: &TrainingJobSpec) -> Option<&str> {
    by_rank(spec).first().map(|group| group.name.as_str())
}

/// What every pod is told about the whole job.
pub(crate) struct Gang<'a> {
    pub job: &'a ValidatedJob,
    /// Pods of the job that are in the world: all but evaluators and groups outside the
    /// gang. Of elastic groups the most that there may be.
    pub world_size: u32,
    /// The least of them that the job works with.
    pub least_world_size: u32,
    /// Full DNS name of the pod of rank 0.
    pub leader_address: String,
    /// True if every pod of the world runs one training process.
    pub one_process_a_pod: bool,
    /// What follows a pod's name in its full DNS name.
    domain: String,
    first_ranks: BTreeMap<&'a str, u32>,
}

impl<'a> Gang<'a> {
    pub fn new(job: &'a ValidatedJob, settings: &Settings) -> Self {
        let spec = job.spec();

        let mut first_ranks = BTreeMap::new();
        let mut next = 0_u32;
        for group in by_rank(spec) {
            first_ranks.insert(group.name.as_str(), next);
            next = next.saturating_add(group.replicas());
        }
        let leader = leader_group(spec)
            .map(|group| names::pod(job.name(), group, 0))
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
            least_world_size: least,
            leader_address: format!("{leader}.{domain}"),
            one_process_a_pod: world.all(|g| g.gpus() <= 1),
            domain,
            first_ranks,
        }
    }

    /// True if the job works with fewer pods than it asks for.
    pub fn is_elastic(&self) -> bool {
        self.least_world_size < self.world_size
    }

    /// Rank of the first pod of a group; the others follow by index.
    pub fn first_rank(&self, group: &TaskGroup) -> u32 {
        self.first_ranks
            .get(group.name.as_str())
            .copied()
            .unwrap_or_default()
    }

    /// The groups in the order of their ranks.
    pub fn by_rank(&self) -> Vec<&'a TaskGroup> {
        by_rank(self.job.spec())
    }

    /// Full DNS names of the pods of a group, by index.
    pub fn addresses(&self, group: &TaskGroup) -> impl Iterator<Item = String> {
        (0..group.replicas()).map(|index| {
            let pod = names::pod(self.job.name(), &group.name, index);
            format!("{pod}.{}", self.domain)
        })
    }
}
