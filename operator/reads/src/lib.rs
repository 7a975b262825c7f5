//! Reads the content of commands and of the web page, with the rights of one user.
//!
//! A read returns plain data. The command line renders them as text, and the page gets them as the
//! JSON of `-o json`. So both show the same facts in the same words.

#![allow(
    clippy::disallowed_methods,
    reason = "reads run on their user's machine, never in a simulation"
)]

mod api_reads;
pub mod attempts;
pub mod events;
pub mod explain;
pub mod forecast;
pub mod live;
pub mod namespaces;
pub mod nodes;
pub mod plan;
pub mod pods;
pub mod policies;
pub mod queue;
mod read_error;
mod reader;
mod remedy;
pub mod report;
pub mod text;
pub mod visibility;

pub use api_reads::{ApiFailure, ErrorHints, get_optional, list, list_parts};
pub use read_error::{ReadError, ReadFailure};
pub use reader::Reader;
pub use remedy::remedy;
