//! The command line `trellis`, which is also the kubectl plugin.
//! It has no dependency on the operator's server.
//!
//! Commands on a cluster ask the API server with the user's own rights; the engine's answers come
//! through [`trellis_api::visibility`]. Commands on files (`plan`, `policy`, `simulate`, `import`,
//! `replay`) run the operator's own code on the content of the files.
//!
//! A command is a thin layer around a view. A view is a function without I/O and without a clock
//! that turns the read data into text.

#![allow(
    clippy::disallowed_methods,
    reason = "commands run on their user's machine, never in a simulation"
)]

mod cancel;
mod cluster;
mod command;
mod command_view;
mod completions;
mod crds;
mod dashboard;
mod events;
mod exit;
mod explain;
mod files;
mod history;
mod import;
mod logs;
mod nodes;
mod output;
mod plan;
mod policy;
mod queue;
mod replay;
mod requester_options;
mod simulate;
mod status;
mod submit;
mod suspend;
mod target;
mod top;
mod verify;
mod wait_options;
mod what_if;

pub use command::{Cli, run};
