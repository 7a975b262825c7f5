//! Faults around the operator, and the guarantees that hold despite them. Each test has its own
//! control plane, because it breaks it.
//!
//! The harness starts tests in the order of their names. Tests that wait for a minute have names
//! that sort early, so that the other tests run meanwhile.

mod adoption;
mod aged;
mod answers;
mod apiserver;
mod avoided;
mod backup;
mod blocked;
mod children;
mod claims;
mod deletes;
mod epoch;
mod flavors;
mod held;
mod journal;
mod lease;
mod namespace;
mod resume;
mod rollback;
mod scene;
mod surplus;
mod undecodable;
mod watches;
mod wave;
mod webhooks;

use std::path::Path;

/// The operator under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}
