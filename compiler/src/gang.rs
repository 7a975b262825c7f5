//! The job as its pods know it: who has which rank, and where rank 0 is.

use std::collections::BTreeMap;

use trellis_api::job::{Role, TaskGroup};
use trellis_api::{TrainingJobSpec, ValidatedJob, names};

use crate::Settings;

/// The groups in the order of their ranks: the Coordinator group first, the
/// rest as they stand in the spec.
fn by_rank(spec: &TrainingJobSpec) -> Vec<&TaskGroup> {
    let mut order: Vec<_> = spec.task_groups.iter().collect();
    // Stable: what is equal keeps its order.
    order.sort_by_key(|group| group.role() != Role::Coordinator);
    order
}

/// Name of the group whose pod of index 0 has rank 0. None for a spec without
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
    /// Pods of the job.
    pub world_size: u32,
    /// Full DNS name of the pod of rank 0.
    pub leader_address: String,
    /// True if every pod of the job runs one training process.
    pub one_process_a_pod: bool,
    first_ranks: BTreeMap<&'a str, u32>,
}

impl<'a> Gang<'a> {
    pub fn new(job: &'a ValidatedJob, settings: &Settings) -> Self {
        let spec = job.spec();
        let order = by_rank(spec);

        let mut first_ranks = BTreeMap::new();
        let mut next = 0_u32;
        for group in &order {
            first_ranks.insert(group.name.as_str(), next);
            next = next.saturating_add(group.replicas());
        }
        let leader = leader_group(spec)
            .map(|group| names::pod(job.name(), group, 0))
            .unwrap_or_default();
        Self {
            job,
            world_size: spec.pod_count(),
            leader_address: format!(
                "{leader}.{}.{}.svc.{}",
                job.name(),
                job.namespace(),
                settings.cluster_domain
            ),
            one_process_a_pod: spec.task_groups.iter().all(|g| g.gpus() <= 1),
            first_ranks,
        }
    }

    /// Rank of the first pod of a group; the others follow by index.
    pub fn first_rank(&self, group: &TaskGroup) -> u32 {
        self.first_ranks
            .get(group.name.as_str())
            .copied()
            .unwrap_or_default()
    }
}
