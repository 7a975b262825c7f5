//! The answers to the page. Each has the content of a command's `-o json`, if one has it.

mod attempts;
mod job;
mod lists;
mod names;
mod namespaces;
mod open;
mod plan;
mod policies;
mod session;
mod stream;
mod what_if;

pub(crate) use attempts::list_attempts;
pub(crate) use job::{job_report, job_why};
pub(crate) use lists::{list_nodes, list_queue};
pub(crate) use namespaces::list_namespaces;
pub(crate) use open::open_page;
pub(crate) use plan::plan_jobs;
pub(crate) use policies::list_policies;
pub(crate) use session::describe_session;
pub(crate) use stream::stream_changes;
pub(crate) use what_if::forecast_changes;
