//! Policies that people write.

mod bad;
mod confined;
mod document;
mod enforcement;
mod evict;
mod failures;
mod format;
mod hostile;
mod job;
mod parts;
mod remote;
mod schema;
mod set;
pub mod starter;
pub mod support;
