//! The objects of a cluster that a plan depends on, and their kinds.

mod cluster_snapshot;
mod policy_files;
mod read_kinds;
mod storage;

pub(crate) use cluster_snapshot::ClusterSnapshot;
pub(super) use read_kinds::{SnapshotKind, resource_list};
