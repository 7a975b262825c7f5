//! Faults around the operator, and the guarantees that hold despite them. Each test has its own
//! control plane, because the test breaks it.
//!
//! The harness starts tests in the order of their names. Tests that wait for a minute have names
//! that sort early, so that the other tests run meanwhile.

mod aged_cache;
mod blocked_job;
mod broken_watches;
mod children;
mod fixtures;
mod flavors;
mod journal;
mod lease;
mod namespace;
mod paused_commit;
mod pods;
mod requests;
mod resumption;
mod state;
mod webhooks;

use std::path::Path;

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}
