//! How the ranks of a placed job follow the topology, in its status.

use trellis_api::job::{JobPhase, LevelPlacement, TrainingJobStatus};
use trellis_cache::Cache;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::placement_levels::{placement_levels, placement_with_surplus};

use crate::job_context::JobContext;

/// Returns the levels for the new status of a job. Empty unless the job has its place.
pub(super) fn placement_in_status(
    cache: &Cache,
    job_context: &JobContext,
    new_status: &TrainingJobStatus,
) -> Vec<LevelPlacement> {
    let has_place = matches!(
        new_status.phase,
        Some(JobPhase::Starting | JobPhase::Running)
    );
    let plan = job_context.placed_plan().filter(|_| has_place);
    let Some(plan) = plan.filter(|plan| Some(plan.attempt) == new_status.attempt) else {
        return Vec::new();
    };
    let placement = placement_with_surplus(plan, job_context.uid(), job_context.pods.values());
    let topologies = cache.topologies.all();
    let topologies = topologies.iter().map(|topology| {
        let name = topology.metadata.name.as_deref().unwrap_or_default();
        engine::to_engine_topology(name, &topology.spec)
    });
    let topologies: Vec<_> = topologies.collect();
    let find_node = |name: &str| cache.nodes.get(&Key::new("", name));
    placement_levels(&job_context.job.spec, &placement, &topologies, find_node)
}
