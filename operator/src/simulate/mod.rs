//! Recorded workloads, decided by the engine that the operator runs.
//!
//! Pure: what a simulation answers is a function of the files' bytes and the seed.

mod openb;
mod random;
mod summary;
mod table;

pub use openb::{Trace, run};
pub use summary::Summary;
pub use table::{Table, TableError};
