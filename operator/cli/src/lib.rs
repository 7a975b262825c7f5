//! The command line for those who run jobs and those who look after them. Every command asks the
//! API server, with the rights of whoever runs it; what the engine alone knows comes the same way
//! ([`trellis_api::visibility`]).
//!
//! A command is a thin shell around a view: what was read goes into a function without I/O or
//! clock that makes the text.

pub mod cancel;
pub mod cluster;
pub mod events;
pub mod exit;
pub mod explain;
pub mod files;
pub mod given;
pub mod logs;
pub mod look;
pub mod nodes;
pub mod output;
pub mod pods;
pub mod queue;
pub mod status;
pub mod submit;
pub mod suspend;
pub mod target;
pub mod top;
pub mod visible;
pub mod wait;
