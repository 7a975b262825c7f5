//! Measurements of a simulation: use of the GPUs, hours of nodes, waits and counts of jobs.

pub(super) mod gpu_use_meter;
pub(super) mod head_waits;
pub(super) mod job_counts;
pub(super) mod node_hours;
