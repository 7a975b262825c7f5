//! The PodGroup: the gang as the scheduler counts it.

use trellis_api::pod_group::PodGroupMember;
use trellis_api::{PodGroup, PodGroupSpec, ValidatedJob};

use crate::{CompiledGroup, Surroundings, metadata};

pub(crate) fn build(
    job: &ValidatedJob,
    groups: &[CompiledGroup],
    surroundings: &Surroundings,
) -> PodGroup {
    PodGroup {
        metadata: metadata::child(job),
        spec: PodGroupSpec {
            min_member: i64::from(job.spec().pod_count()),
            queue: surroundings.queue.clone(),
            priority: surroundings.priority,
            groups: groups.iter().map(member).collect(),
        },
        status: None,
    }
}

fn member(group: &CompiledGroup) -> PodGroupMember {
    PodGroupMember {
        name: group.name().to_owned(),
        count: i64::from(group.replicas()),
        resources: group.resources().clone(),
    }
}
