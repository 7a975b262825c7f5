//! Pods of a placed job that do not exist.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TaskGroup, TrainingJobStatus, format_ranges, parse_ranges};

use super::{PodLine, StageRanks};

/// Missing pods of one task group, with one cause.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MissingPods {
    /// The task group.
    pub group: String,
    /// The indexes, such as `0-3,7`.
    pub indexes: String,
    /// The ranks in the stage.
    pub ranks: String,
    /// The number of pods.
    pub count: usize,
    /// The cause.
    pub why: String,
    /// The earliest time at which the pods are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// True: the pods have completed, so the job does not wait for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
}

/// Cause of a missing pod: sort order, text, and the earliest time of its creation.
type MissingCause = (u8, String, Option<Timestamp>);

/// Returns the missing pods, in the order of their ranks.
/// A job that is not placed has none.
#[must_use]
pub fn find_missing(job: &TrainingJob, pods: &[PodLine]) -> Vec<MissingPods> {
    let Some(status) = &job.status else {
        return Vec::new();
    };
    if !matches!(status.phase, Some(JobPhase::Starting | JobPhase::Running)) {
        return Vec::new();
    }
    let stage = status.stage_number();
    let attempt = status.attempt.unwrap_or(1);
    let spec = job.spec.for_stage(stage);
    let ranks = StageRanks::for_stage(&job.spec, stage);
    let mut all = Vec::new();
    for group in spec.groups_by_rank() {
        let existing = pods.iter().filter(|pod| pod.group == group.name);
        let existing: BTreeSet<u32> = existing
            .filter(|pod| pod.attempt == attempt)
            .map(|pod| pod.index)
            .collect();
        let mut causes: BTreeMap<MissingCause, BTreeSet<u32>> = BTreeMap::new();
        for index in (0..group.replicas()).filter(|index| !existing.contains(index)) {
            let cause = missing_cause(status, group, index, attempt);
            causes.entry(cause).or_default().insert(index);
        }
        for ((order, reason, not_before), own) in causes {
            let of_rank = own
                .iter()
                .filter_map(|index| ranks.rank(&group.name, *index));
            all.push(MissingPods {
                group: group.name.clone(),
                indexes: format_ranges(&own),
                ranks: format_ranges(&of_rank.collect()),
                count: own.len(),
                why: reason,
                not_before,
                done: order == DONE,
            });
        }
    }
    all
}

const DONE: u8 = 0;
const AWAITED: u8 = 1;

fn missing_cause(
    status: &TrainingJobStatus,
    group: &TaskGroup,
    index: u32,
    attempt: i64,
) -> MissingCause {
    let name = group.name.as_str();
    let finished = status.internal.finished_pods.as_ref();
    let finished = finished.filter(|finished| finished.attempt == attempt);
    let of_group = finished
        .iter()
        .flat_map(|finished| &finished.groups)
        .find(|finished_group| finished_group.name == name);
    if let Some(finished_group) = of_group {
        if parse_ranges(&finished_group.completed_indexes).contains(&index) {
            return (DONE, "succeeded, and the pod is gone".to_owned(), None);
        }
        if parse_ranges(&finished_group.failed_indexes).contains(&index) {
            let reason = "failed, which a rule ignores; the pod is gone";
            return (DONE, reason.to_owned(), None);
        }
    }
    let awaited = status.internal.awaited_pods.as_ref();
    let awaited = awaited.filter(|awaited| awaited.attempt == attempt);
    if let Some(awaited) = awaited {
        if awaited
            .held_groups
            .iter()
            .any(|held_group| held_group == name)
        {
            let groups: Vec<_> = group.depends_on.iter().map(|d| d.group.as_str()).collect();
            let reason = format!("waits for {} to be Ready (dependsOn)", groups.join(", "));
            return (AWAITED, reason, None);
        }
        if let Some(entry) = awaited.index_by_pod().get(name, index) {
            let not_before = entry.not_before.as_ref().map(|time| time.0);
            if entry.displaced {
                return (2, "waits for free capacity".to_owned(), not_before);
            }
            return (AWAITED, "is recreated".to_owned(), not_before);
        }
    }
    if index >= group.gang_size() {
        return (2, "waits for free capacity".to_owned(), None);
    }
    (1, "is to be created".to_owned(), None)
}
