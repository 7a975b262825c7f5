//! What goes wrong around the operator, and what must hold all the same: on a real control
//! plane, each test with one of its own, since it breaks it.
//!
//! The harness goes by names: what waits for a minute has one that comes early, and the others
//! are done meanwhile.

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
