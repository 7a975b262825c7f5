//! The Trellis operator and command line: the shell around the pure crates.
//!
//! `watch` sees the cluster, `controller` decides about one TrainingJob at a
//! time, `scheduling` feeds the engine and carries out what it decides, and
//! every write of both goes through `commands`. `policy` keeps the policies that
//! decide what may run, `quota` those that limit how much of it. `endpoint`
//! tells who asks, `webhook` answers before a job or a policy is stored; `serve` is what
//! both serve by.

pub mod cache;
pub mod cli;
pub mod clients;
pub mod commands;
mod conditions;
pub mod context;
pub mod controller;
pub mod endpoint;
pub mod epoch;
pub mod key;
pub mod leader;
pub mod operator;
pub mod patch;
pub mod policy;
pub mod quota;
pub mod rbac;
pub mod scheduling;
pub mod serve;
pub mod simulate;
pub mod snapshot;
pub mod tasks;
pub mod telemetry;
pub mod turns;
pub mod watch;
pub mod webhook;
