//! Merges task groups whose ranks share slices or an even split.

use trellis_api::topology::Closeness;
use trellis_scheduler::TaskGroup;

use super::topology::{prefers_slices, to_level_request, to_slices};

/// Merges the groups of the world if slices or an even split of the gang count the pods of all of them.
/// `world` has their names, in the order of their ranks.
pub(super) fn merge_split_world<'n>(
    closeness: Option<&Closeness>,
    world: impl Iterator<Item = &'n str>,
    mut groups: Vec<TaskGroup>,
) -> Vec<TaskGroup> {
    let Some(closeness) = closeness.filter(|closeness| closeness.splits()) else {
        return groups;
    };
    let mut parts: Vec<TaskGroup> = Vec::new();
    for name in world {
        let at = groups.iter().position(|group| group.name.as_str() == name);
        parts.extend(at.map(|at| groups.remove(at)));
    }
    // A part has a topology only if a volume requires one node for its pods. Validation refuses any other
    // topology of a part.
    let one_node = parts.iter().find_map(|part| part.topology.clone());
    let Some(merged) = TaskGroup::merge(parts) else {
        return groups;
    };
    let balanced = closeness.is_balanced();
    let even = to_level_request(closeness).filter(|_| balanced);
    let slices = match one_node {
        Some(_) => Vec::new(),
        None => to_slices(closeness, merged.count),
    };
    let merged = TaskGroup {
        topology: one_node.or(even),
        balanced,
        slices,
        prefers_slices: prefers_slices(closeness),
        ..merged
    };
    groups.insert(0, merged);
    groups
}
