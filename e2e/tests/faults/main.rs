//! Faults around the operator, and the guarantees that hold despite them. Each test has its own
//! control plane, because the test breaks it.
//!
//! The harness starts tests in the order of their names. Tests that wait for a minute have names
//! that sort early, so that the other tests run meanwhile.

mod api_server;
mod avoided_node;
mod backup;
mod blocked_job;
mod children;
mod claims;
mod deletes;
mod epoch;
mod fixtures;
mod flavors;
mod journal;
mod lease;
mod lost_responses;
mod mass_failure;
mod namespace;
mod operator_rollback;
mod paused_commit;
mod resumption;
mod stale_watch;
mod surplus_pods;
mod takeover;
mod undecodable_jobs;
mod watches;
mod webhooks;

use std::path::Path;

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}
