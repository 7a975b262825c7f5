//! The pods of a plan.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::pod_group::{Assignment, Plan};

use crate::gang_indexes::GangIndexes;
use crate::observed::PodView;

/// Returns the pods of a plan: group, index and node of each.
pub fn members(plan: &Plan) -> impl Iterator<Item = (&str, u32, &str)> {
    let pods = |run: &Assignment| u32::try_from(run.count).unwrap_or(0);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for run in &plan.assignments {
        let count = counts.entry(run.group.as_str()).or_default();
        *count = count.saturating_add(pods(run));
    }
    let groups = counts.into_iter();
    let groups = groups.map(|(group, count)| (group, GangIndexes::planned(plan, group, count)));
    let indexes: BTreeMap<&str, GangIndexes> = groups.collect();
    let mut next: BTreeMap<&str, u32> = BTreeMap::new();
    plan.assignments.iter().flat_map(move |run| {
        let first = next.entry(run.group.as_str()).or_default();
        let positions = *first..first.saturating_add(pods(run));
        *first = positions.end;
        let indexes = indexes.get(run.group.as_str()).cloned().unwrap_or_default();
        positions.map(move |at| (run.group.as_str(), indexes.at(at), run.node.as_str()))
    })
}

/// Returns true if every pod of the plan exists on its node and matches the predicate. Groups that
/// wait for other groups are left out.
pub fn is_plan_complete(
    plan: &Plan,
    uid: &str,
    pods: &BTreeMap<String, PodView>,
    held_groups: &[String],
    matches_pod: impl Fn(&PodView) -> bool,
) -> bool {
    let existing: BTreeSet<(&str, u32, &str)> = pods
        .values()
        .filter(|p| p.job_uid == uid && p.plan == plan.hash && matches_pod(p))
        .filter_map(|p| Some((p.group.as_str(), p.index, p.node.as_deref()?)))
        .collect();
    let is_held = |group: &str| held_groups.iter().any(|held| held == group);
    let mut members = members(plan).filter(|(group, ..)| !is_held(group));
    !plan.assignments.is_empty() && members.all(|member| existing.contains(&member))
}
