//! Faults of single requests: lost, held, failed and late answers.

pub(super) mod api_server;
pub(super) mod deletes;
pub(super) mod lost_responses;
