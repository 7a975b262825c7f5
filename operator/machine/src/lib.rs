//! The parts of its machine that the operator uses, apart from sockets and files: the time of day,
//! threads for long work, and random bytes.
//!
//! A [`SimulatedMachine`] replaces all three for the thread that has entered it. The operator then
//! runs on one thread and in virtual time, and a run can be repeated exactly. `clippy.toml` refuses
//! the functions behind these modules everywhere else in the operator.

pub mod clock;
pub mod random;
mod simulated;
mod split_mix;
pub mod threads;

pub use simulated::{EnteredMachine, SimulatedMachine};
pub use split_mix::SplitMix64;
