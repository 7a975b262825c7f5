//! The place of a job that holds nodes already.

use trellis_api::PodGroup;
use trellis_api::pod_group::{Plan, PodGroupPhase};
use trellis_compiler::CompiledJob;
use trellis_gang::engine;
use trellis_gang::requirements::flavors::GangPlacement;

/// Returns the plan of a gang that holds nodes.
#[must_use]
pub fn current_plan(group: &PodGroup) -> Option<&Plan> {
    let status = group.status.as_ref()?;
    let phase = status.phase.unwrap_or_default();
    let holds = !matches!(phase, PodGroupPhase::Pending | PodGroupPhase::Finished);
    status.plan.as_ref().filter(|_| holds)
}

/// Returns the current placement of a job with this PodGroup. The job keeps it if its request is
/// unchanged. None: it holds no nodes, or its request has changed.
#[must_use]
pub fn current_place(compiled: &CompiledJob, group: &PodGroup) -> Option<GangPlacement> {
    let plan = current_plan(group).filter(|_| group.spec == compiled.pod_group().spec)?;
    Some(GangPlacement {
        placement: engine::placement_from_plan(plan),
        groups: plan.groups.clone(),
        limits: plan.limits.clone(),
        requester: plan.requester.clone(),
        quota_version: 0,
    })
}
