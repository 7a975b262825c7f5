//! Objects and jobs that commands read from files.

pub(super) mod engine_snapshot;
pub(super) mod job;
pub(super) mod node_defaults;
pub(super) mod objects;
pub(super) mod source_object;
