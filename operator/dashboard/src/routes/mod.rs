//! The answers to the page. Each has the content of a command's `-o json`.

mod job;
mod lists;
mod names;
mod open;
mod plan;
mod session;
mod stream;

pub(crate) use job::{job_report, job_why};
pub(crate) use lists::{list_nodes, list_queue};
pub(crate) use open::open_page;
pub(crate) use plan::plan_jobs;
pub(crate) use session::describe_session;
pub(crate) use stream::stream_changes;
