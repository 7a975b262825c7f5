//! Indexes of the pods that the status of a job lists: awaited pods and finished pods.

pub(super) mod awaited;
pub(super) mod finished;
