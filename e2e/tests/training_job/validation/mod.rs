//! Jobs that the API server, the webhook or the operator refuses, and the versions of their schema.

pub(super) mod admission;
pub(super) mod fields;
pub(super) mod managed_by;
pub(super) mod refusals;
pub(super) mod resources;
pub(super) mod server_side_apply;
pub(super) mod version_skew;
