//! Measurements of a simulation: use of the GPUs, waits and counts of jobs.

pub(super) mod gpu_use_meter;
pub(super) mod head_waits;
pub(super) mod job_counts;
