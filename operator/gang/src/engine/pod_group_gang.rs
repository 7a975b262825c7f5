//! Converts a PodGroup into a gang of the engine, for gangs whose job is not known.

use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupMember;
use trellis_api::topology::Closeness;
use trellis_scheduler::{Gang, GroupName, QueueName, ResourceName, Resources, TaskGroup};

use super::names::gang_id;
use super::split_world::merge_split_world;
use super::topology::{prefers_slices, to_level_request, to_slices};
use super::units::to_duration;
use crate::key::Key;
use crate::requirements::resource_request::quantity_units;

/// Returns a gang as its PodGroup describes it: enough to charge its place and to decide which
/// gangs may preempt it. Changes by admission, constraints, run time and position in the queue are
/// unknown.
#[must_use]
pub fn gang_from_pod_group(job: &Key, group: &PodGroup) -> Gang {
    let request = |member: &PodGroupMember| -> Resources {
        let amounts = member.resources.iter().map(|(name, quantity)| {
            let units = quantity_units(name, quantity);
            (ResourceName::new(name.as_str()), units)
        });
        amounts.collect()
    };
    let member = |member: &PodGroupMember| TaskGroup {
        device: member.gpu_resource.as_deref().map(ResourceName::new),
        topology: member.topology.as_ref().and_then(to_level_request),
        balanced: member.topology.as_ref().is_some_and(Closeness::is_balanced),
        slices: member.topology.as_ref().map_or_else(Vec::new, |topology| {
            let pods = u32::try_from(member.count).unwrap_or(0);
            to_slices(topology, pods)
        }),
        prefers_slices: member.topology.as_ref().is_some_and(prefers_slices),
        ..TaskGroup::new(
            GroupName::new(member.name.as_str()),
            u32::try_from(member.count).unwrap_or(0),
            request(member),
            format!("{}-{}", job.name, member.name),
        )
    };
    let spec = &group.spec;
    // A placed gang has the values of its plan: the spec may have been edited since.
    let plan = group.status.as_ref().and_then(|s| s.plan.as_ref());
    let queue = plan.and_then(|p| p.queue.as_deref());
    let queue = QueueName::new(queue.unwrap_or(&spec.queue_name));
    let mut world: Vec<(i64, &str)> = spec
        .groups
        .iter()
        .filter_map(|member| Some((member.first_rank?, member.name.as_str())))
        .collect();
    world.sort_unstable();
    let world = world.into_iter().map(|(_, name)| name);
    let groups = spec.groups.iter().map(member).collect();
    let groups = merge_split_world(spec.topology.as_ref(), world, groups);
    Gang {
        priority: plan.and_then(|p| p.priority).unwrap_or(spec.priority()),
        topology: spec.topology.as_ref().and_then(to_level_request),
        preemptible: spec.is_preemptible(),
        min_runtime: to_duration(spec.min_runtime_seconds.unwrap_or(0)),
        grace: to_duration(spec.grace_period_seconds()),
        ..Gang::new(gang_id(job), queue, groups)
    }
}
