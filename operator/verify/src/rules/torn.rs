//! A gang has all pods of its plan or none.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::SignedDuration;
use trellis_api::TrainingJob;
use trellis_api::job::{format_ranges, parse_ranges};
use trellis_api::pod_group::Plan;

use super::lasting::{LastingRule, Violation};
use super::torn_slices::describe_torn_slice;
use crate::cluster::{Cluster, JobUid};
use crate::finding::{ObjectRef, Rule};
use crate::pods::PodFacts as _;

/// A plan is carried out or given up within two minutes. PodDisruptionBudgets may then delay its
/// evictions for two minutes. The rest is for the last requests.
const COMMIT_AND_ROLLBACK_TIME: SignedDuration = SignedDuration::from_secs(120 + 120 + 30);

/// A gang of which some pods live and some are missing.
pub(crate) struct Torn;

impl LastingRule for Torn {
    const RULE: Rule = Rule::Torn;
    type Subject = JobUid;

    fn find(cluster: &Cluster, uid: &JobUid) -> Option<Violation> {
        find_torn_gang(cluster, uid)
    }
}

/// Pods of one task group of a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupCount {
    planned: u32,
    /// Planned pods that must exist: neither are they awaited, nor have they finished.
    expected: BTreeSet<u32>,
    live: usize,
    over: usize,
    /// Expected pods that do not exist.
    missing: BTreeSet<u32>,
}

impl GroupCount {
    /// Returns true if the pod with this index must exist.
    pub(super) fn expects(&self, index: u32) -> bool {
        self.expected.contains(&index)
    }
}

fn find_torn_gang(cluster: &Cluster, uid: &JobUid) -> Option<Violation> {
    let group = cluster.group_of_job(uid)?;
    let job = cluster.job(uid)?;
    let plan = group
        .status
        .as_ref()
        .and_then(|status| status.plan.as_ref());
    let mut counts = plan
        .map(|plan| expected_pods(plan, job))
        .unwrap_or_default();
    let mut live: usize = 0;
    let mut grace: i64 = 0;
    for (_, pod) in cluster.pods_of_job(uid) {
        grace = grace.max(pod.grace_seconds());
        // Pods of a slice that joined the gang keep the annotation of surplus pods.
        let index = pod.index().unwrap_or(u32::MAX);
        let count = pod.group().and_then(|group| counts.get(group));
        if pod.is_surplus() && count.is_none_or(|count| !count.expects(index)) {
            continue;
        }
        live = live.saturating_add(usize::from(pod.is_live()));
        let is_planned = plan.is_some_and(|plan| pod.plan() == Some(plan.hash.as_str()));
        let count = pod
            .group()
            .filter(|_| is_planned && (pod.is_live() || pod.is_over()))
            .and_then(|group| counts.get_mut(group));
        if let (Some(count), Some(index)) = (count, pod.index())
            && count.missing.remove(&index)
        {
            let by_state = match pod.is_live() {
                true => &mut count.live,
                false => &mut count.over,
            };
            *by_state = by_state.saturating_add(1);
        }
    }
    if live == 0 {
        return None;
    }
    let message = match plan {
        None => format!("{live} pods live without a plan"),
        Some(plan) => describe_missing_pods(&counts)
            .or_else(|| describe_torn_slice(cluster, (uid, job), plan, &counts))?,
    };
    Some(Violation {
        object: ObjectRef::new("TrainingJob", &job.metadata),
        message,
        allowed: COMMIT_AND_ROLLBACK_TIME.saturating_add(SignedDuration::from_secs(grace)),
    })
}

/// Returns the pods that must exist, by task group. A group whose pods wait for another group has
/// none.
pub(super) fn expected_pods<'a>(
    plan: &'a Plan,
    job: &TrainingJob,
) -> BTreeMap<&'a str, GroupCount> {
    let mut counts: BTreeMap<&str, GroupCount> = BTreeMap::new();
    for assignment in &plan.assignments {
        let count = counts.entry(&assignment.group).or_default();
        let pods = u32::try_from(assignment.count).unwrap_or(0);
        count.planned = count.planned.saturating_add(pods);
    }
    for (name, count) in &mut counts {
        count.expected = planned_indexes(plan, name, count.planned);
    }
    let internal = job.status.as_ref().map(|status| &status.internal);
    let awaited = internal.and_then(|internal| internal.awaited_pods.as_ref());
    let awaited = awaited.filter(|awaited| awaited.attempt == plan.attempt);
    let waits = |name: &str| match awaited {
        Some(awaited) => awaited.held_groups.iter().any(|held| held == name),
        // The status has no record yet.
        None => job
            .spec
            .task_groups
            .iter()
            .any(|group| group.name == name && !group.depends_on.is_empty()),
    };
    counts.retain(|name, _| !waits(name));
    for awaited in awaited.iter().flat_map(|awaited| &awaited.pods) {
        if let Some(count) = counts.get_mut(awaited.name.as_str()) {
            let indexes = awaited.indexes();
            count.expected.retain(|index| !indexes.contains(index));
        }
    }
    let finished = internal.and_then(|internal| internal.finished_pods.as_ref());
    let finished = finished.filter(|finished| finished.attempt == plan.attempt);
    for finished in finished.iter().flat_map(|finished| &finished.groups) {
        if let Some(count) = counts.get_mut(finished.name.as_str()) {
            for ranges in [&finished.completed_indexes, &finished.failed_indexes] {
                let indexes = parse_ranges(ranges);
                count.expected.retain(|index| !indexes.contains(index));
            }
        }
    }
    for count in counts.values_mut() {
        count.missing = count.expected.clone();
    }
    counts
}

/// Returns true if the plan has a pod of the group with this index.
pub(super) fn has_pod(plan: &Plan, group: &str, index: u32) -> bool {
    let assignments = plan.assignments.iter().filter(|a| a.group == group);
    let pods = assignments.filter_map(|a| u32::try_from(a.count).ok());
    let pods = pods.fold(0, u32::saturating_add);
    planned_indexes(plan, group, pods).contains(&index)
}

/// Returns the indexes of a group's pods in a plan: the lowest, or those of the slices that the plan
/// names by their first pods.
fn planned_indexes(plan: &Plan, group: &str, pods: u32) -> BTreeSet<u32> {
    let mut elastic = plan.elastic.iter().filter(|elastic| elastic.name == group);
    let starts = elastic
        .next()
        .map_or(&[][..], |elastic| &elastic.slice_starts);
    let slices = u32::try_from(starts.len()).unwrap_or(u32::MAX);
    let Some(size) = pods.checked_div(slices) else {
        return (0..pods).collect();
    };
    let starts = starts.iter().filter_map(|start| u32::try_from(*start).ok());
    starts
        .flat_map(|start| start..start.saturating_add(size))
        .collect()
}

fn describe_missing_pods(counts: &BTreeMap<&str, GroupCount>) -> Option<String> {
    let (name, count) = counts.iter().find(|(_, count)| !count.missing.is_empty())?;
    Some(format!(
        "task group {name:?}: {} of {} expected pods live, {} have ended, {} are missing",
        count.live,
        count.expected.len(),
        count.over,
        format_ranges(&count.missing)
    ))
}
