//! From the cluster to the engine, and from its decisions to pods.
//!
//! One task owns the engine (`driver`). It handles events ([`SchedulerEvent`]), gets the next step
//! of each changed gang from `gang`, lets the engine decide, and starts the writes (`commit`). It
//! never waits for the API server itself. `context` is the shared state, and routes the watches'
//! changes to tasks. Every write goes through `commands`, under the lease of `leader`.

#[cfg(any(test, feature = "fixtures"))]
pub mod captured_log;
pub mod clients;
pub mod commands;
mod commit;
pub mod context;
mod driver;
pub mod evaluation_turns;
mod event_channel;
pub mod external_request;
pub mod leader;
pub mod metric_catalog;
pub mod metrics;
mod node_orders;
mod planned_gang;
mod preflight;
mod reports;
mod task_outcome;
pub mod tasks;
pub mod traces;
mod watched_kinds;
mod work_queue;

pub use commit::{Committer, is_live_child, is_owned};
pub use driver::Driver;
pub use event_channel::{EventReceiver, EventSender, SchedulerEvent, event_channel};
pub use metric_catalog::markdown;
pub use metrics::{NodeOrderEnd, OperatorMetrics, ReconcileResult};
pub use node_orders::maintain_node_orders;
pub use planned_gang::{PlannedAttempt, PlannedGang};
pub use reports::{QueueReport, TotalsReport};
pub use watched_kinds::{WATCHED_KINDS, WatchedKind, start_watches};
pub use work_queue::WorkQueue;
