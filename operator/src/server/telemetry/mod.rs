//! What people and machines are told of the operator itself: logs, metrics and health.
//!
//! `state` looks up how things stand when a scraper asks. `health` is what a kubelet asks. What
//! happens is counted in `dispatch::counts`, by the metrics that `dispatch::facts` lists.

pub mod health;
mod log;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod written;

pub use log::{LogFormat, log};
pub use state::{FORMAT, Lead, Leading, text};
