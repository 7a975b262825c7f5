//! From the cluster to the engine, and from its decisions to pods.
//!
//! One task owns the engine (`driver`). It handles events ([`Feed`]), asks `gang` for the next step
//! of each changed gang, lets the engine decide, and starts the writes (`commit`). It never waits
//! for the API server itself. `context` is the shared state, and routes the watches' changes to
//! tasks. Every write goes through `commands`, under the lease of `leader`.

#[cfg(any(test, feature = "fixtures"))]
pub mod captured_log;
pub mod clients;
pub mod commands;
mod commit;
pub mod context;
pub mod counts;
mod driver;
pub mod facts;
mod feed;
pub mod find_asks;
pub mod leader;
mod preflight;
mod reports;
pub mod tasks;
pub mod traces;
pub mod turns;
mod work_queue;

pub use commit::{Committer, is_owned, is_there};
pub use counts::{Counts, Looked};
pub use driver::Driver;
pub use facts::markdown;
pub use feed::{Feed, Heard, Tell, channel};
pub use reports::{QueueReport, TotalsReport};
pub use work_queue::WorkQueue;
