//! The binary `trellis`: the operator's options and wiring, and the commands that work on files.
//!
//! Imports between the crates of the operator point one way: `trellis-gang` (pure) <-
//! `trellis-cache` (what the watches show) <- `trellis-dispatch` (the engine's task and all writes)
//! <- `trellis-controller` (one TrainingJob at a time) <- `trellis-server` (webhook, visibility API,
//! metrics) <- this crate.

pub mod cli;
pub mod operator;
pub mod rbac;
pub mod simulate;
