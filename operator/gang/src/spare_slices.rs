//! Slices outside the gang. A running one can replace a slice of the gang that cannot return to its
//! nodes, because all slices of a group are alike.

use std::collections::BTreeMap;

use trellis_api::job::TaskGroup;

use crate::GangIndexes;
use crate::observed::{PodPhase, PodView};

/// Returns the first indexes of the group's slices whose pods all run or have succeeded, and which are
/// not part of the gang.
/// `pods` are the current pods of the attempt.
pub(crate) fn running_spare_slices<'a>(
    group: &TaskGroup,
    gang: &GangIndexes,
    pods: impl Iterator<Item = &'a PodView>,
) -> Vec<u32> {
    let mut running: BTreeMap<u32, u32> = BTreeMap::new();
    let runs = |pod: &&PodView| {
        let is_up = matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded);
        let is_up = is_up && pod.node.is_some() && !pod.deleting;
        is_up && pod.group == group.name && !gang.contains(pod.index)
    };
    for slice in pods
        .filter(runs)
        .filter_map(|pod| group.slice_of(pod.index))
    {
        let count = running.entry(slice.start).or_default();
        *count = count.saturating_add(1);
    }
    let is_whole = |start: u32, count: u32| {
        let slice = group.slice_of(start);
        let end = start.saturating_add(count);
        slice.is_some_and(|slice| slice.end == end && end <= group.replicas())
    };
    let whole = running
        .into_iter()
        .filter(|(start, count)| is_whole(*start, *count));
    whole.map(|(start, _)| start).collect()
}
