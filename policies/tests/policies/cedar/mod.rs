//! Policies that people write.

mod bad;
mod confined;
mod document;
mod enforcement;
mod failures;
mod hostile;
mod job;
mod schema;
mod set;
pub mod starter;
mod support;
