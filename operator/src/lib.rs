//! The Trellis operator and command line: the shell around the pure crates.
//!
//! `watch` sees the cluster, `controller` decides about one TrainingJob at a
//! time, `scheduling` feeds the engine and carries out what it decides, and
//! every write of both goes through `commands`. `policy` keeps the policies that
//! decide what may run. `endpoint` tells who asks.

pub mod cli;
pub mod clients;
pub mod commands;
pub mod controller;
pub mod endpoint;
pub mod key;
pub mod leader;
pub mod operator;
pub mod patch;
pub mod policy;
pub mod rbac;
pub mod scheduling;
pub mod simulate;
pub mod snapshot;
pub mod telemetry;
pub mod watch;
pub mod world;
