//! KAI Scheduler: its queues and topologies, and the jobs that it schedules.
//!
//! Sources of the fields: kai-scheduler/KAI-Scheduler, `pkg/apis/scheduling/v2` and `v2alpha2`,
//! `pkg/apis/kai/v1alpha1`, and `pkg/podgrouper/podgrouper/plugins` for labels and annotations.

mod queue;
mod queue_tree;

pub(crate) use queue::convert_queue;
pub(crate) use queue_tree::QueueTree;

/// The label of the nodes, queues and jobs of a scheduling shard.
const NODE_POOL: &str = "kai.scheduler/node-pool";
