//! The PodGroup: the gang as the scheduler counts it.

use trellis_api::job::TaskGroup;
use trellis_api::pod_group::PodGroupMember;
use trellis_api::{PodGroup, PodGroupSpec, TrainingJobSpec, ValidatedJob};

use super::metadata;
use crate::{CompileContext, CompiledGroup};

pub(crate) fn build(
    job: &ValidatedJob,
    groups: &[CompiledGroup],
    surroundings: &CompileContext,
) -> PodGroup {
    let spec = job.spec();
    PodGroup {
        metadata: metadata::child_metadata(job),
        spec: PodGroupSpec {
            min_member: i64::from(spec.gang_size()),
            queue_name: surroundings.queue.clone(),
            priority: Some(surroundings.priority),
            priority_class_name: None,
            preemptibility: spec.preemptibility,
            min_runtime_seconds: spec.min_runtime_seconds,
            grace_period_seconds: spec
                .checkpoint
                .as_ref()
                .and_then(|checkpoint| checkpoint.grace_period_seconds),
            topology: spec.topology.clone(),
            groups: groups
                .iter()
                .zip(&spec.task_groups)
                .filter(|(_, written)| written.is_in_gang())
                .map(|(group, written)| pod_group_member(spec, group, written))
                .collect(),
        },
        status: None,
    }
}

fn pod_group_member(
    spec: &TrainingJobSpec,
    group: &CompiledGroup,
    written: &TaskGroup,
) -> PodGroupMember {
    let is_split = spec.splits_world() && written.is_in_world();
    PodGroupMember {
        name: group.name().to_owned(),
        count: i64::from(group.gang_size()),
        resources: group.resources(),
        first_rank: is_split.then(|| i64::from(group.first_rank())),
        gpu_resource: (written.gpus() > 0).then(|| written.gpu_resource().to_owned()),
        topology: written.topology.clone(),
    }
}
