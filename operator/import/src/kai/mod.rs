//! KAI Scheduler: its queues and topologies, and the jobs that it schedules.
//!
//! Sources of the fields: kai-scheduler/KAI-Scheduler, `pkg/apis/scheduling/v2` and `v2alpha2`,
//! `pkg/apis/kai/v1alpha1`, and `pkg/podgrouper/podgrouper/plugins` for labels and annotations.

mod amounts;
mod job;
mod pod;
mod pod_group;
mod queue;
mod topology;

pub(crate) use amounts::insert_queue;
pub(crate) use job::{is_queued, protect_class_of_pods, read_job};
pub(crate) use pod::read_pod;
pub(crate) use pod_group::convert_pod_group;
pub(crate) use queue::convert_queue;
pub(crate) use topology::{KaiTopologies, convert_topology};

use serde_json::Value;

use crate::field_log::FieldLog;
use crate::pod::ValueWithPath;

/// The name of KAI in `schedulerName` of pods.
pub(crate) const SCHEDULER: &str = "kai-scheduler";
/// The label of the nodes, queues and jobs of a scheduling shard.
pub(crate) const NODE_POOL: &str = "kai.scheduler/node-pool";
/// The annotation with the number of pods of a Job that start together.
pub(crate) const MIN_MEMBER: &str = "kai.scheduler/batch-min-member";
const QUEUE: &str = "kai.scheduler/queue";
const PRIORITY_CLASS: &str = "priorityClassName";

/// Notes a label with a queue that is not in the input.
pub(crate) fn note_missing_queue(label: &ValueWithPath<String>, log: &FieldLog) {
    log.note(
        &label.path,
        Some(&Value::from(label.value.as_str())),
        "names a queue that is not in the input; the job waits until a TrainingQueue has this name",
        "add the queue's document to the input, unless the cluster has such a TrainingQueue",
    );
}
