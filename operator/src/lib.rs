//! The Trellis operator and command line: the shell around the pure crates.
//!
//! Imports point one way: `gang` (pure) <- `cache` (what the watches show) <- `dispatch` (the
//! engine's task and all writes) <- `controller` (one TrainingJob at a time) <- `server` (webhook,
//! visibility API, metrics) <- `operator` (options and wiring).

pub mod cache;
pub mod cli;
pub mod controller;
pub mod dispatch;
pub mod gang;
pub mod operator;
pub mod rbac;
pub mod server;
pub mod simulate;
