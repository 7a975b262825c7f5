//! A slice outside the gang has all its pods or none.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::TrainingJob;
use trellis_api::job::{TaskGroup, parse_ranges};
use trellis_api::pod_group::Plan;

use super::torn::GroupCount;
use crate::cluster::{Cluster, JobUid};
use crate::pods::PodFacts as _;

/// Describes the first slice outside the gang of which some pods live and some are missing.
/// `expected` are the pods of the gang, by task group.
pub(super) fn describe_torn_slice(
    cluster: &Cluster,
    (uid, job): (&JobUid, &TrainingJob),
    plan: &Plan,
    expected: &BTreeMap<&str, GroupCount>,
) -> Option<String> {
    let groups = job.spec.task_groups.iter();
    let mut split = groups.filter(|group| group.has_slices() && group.is_elastic());
    split.find_map(|group| {
        let gang = expected.get(group.name.as_str());
        let is_outside = |index: u32| gang.is_none_or(|gang| !gang.expects(index));
        let mut live = BTreeSet::new();
        let mut over = finished_indexes(job, plan, group);
        for (_, pod) in cluster.pods_of_job(uid) {
            let is_current = pod.plan() == Some(plan.hash.as_str());
            let is_of_group = pod.group() == Some(group.name.as_str());
            let Some(index) = pod.index().filter(|_| is_current && is_of_group) else {
                continue;
            };
            match (pod.is_live(), pod.is_over()) {
                (true, _) => live.insert(index),
                (false, true) => over.insert(index),
                (false, false) => false,
            };
        }
        let outside = live.iter().filter(|index| is_outside(**index));
        let mut slices = outside.filter_map(|index| group.slice_of(*index));
        slices.find_map(|slice| {
            let mut pods = slice.clone();
            let missing = pods.find(|index| !live.contains(index) && !over.contains(index))?;
            Some(format!(
                "task group {:?}: pods of the slice {} to {} live, and pod {missing} is missing",
                group.name,
                slice.start,
                slice.end.saturating_sub(1)
            ))
        })
    })
}

/// Returns the pods of the group that have finished, also if they are gone.
fn finished_indexes(job: &TrainingJob, plan: &Plan, group: &TaskGroup) -> BTreeSet<u32> {
    let internal = job.status.as_ref().map(|status| &status.internal);
    let finished = internal.and_then(|internal| internal.finished_pods.as_ref());
    let finished = finished.filter(|finished| finished.attempt == plan.attempt);
    let groups = finished.iter().flat_map(|finished| &finished.groups);
    groups
        .filter(|finished| finished.name == group.name)
        .flat_map(|finished| [&finished.completed_indexes, &finished.failed_indexes])
        .flat_map(|ranges| parse_ranges(ranges))
        .collect()
}
