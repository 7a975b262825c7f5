//! What people and machines are told of the operator itself: logs, metrics and health.
//!
//! `facts` is the table of all metrics, from which their documentation is made. What happens is
//! counted in `counts` where it happens; how things stand is looked up by `state` when somebody
//! asks. `health` is what a kubelet asks, `traces` what a look or a write took.

pub(crate) mod counts;
pub(crate) mod facts;
pub mod health;
mod log;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod traces;
#[cfg(test)]
pub(crate) mod written;

pub use counts::{Counts, Looked};
pub use facts::markdown;
pub use log::{LogFormat, log};
pub use state::{FORMAT, Lead, Leading, text};
