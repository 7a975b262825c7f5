//! Applies QuotaPolicies to jobs, and counts used GPU-hours. The engine keeps the current usage of
//! the limits.

mod account;
mod hours;
mod judge;
mod limits;
mod room;

pub use account::{Account, account_of, is_of, read as read_ledger};
pub use hours::{HOUR, Hours};
pub use judge::{Asked, held, judge};
pub use limits::{JobLimits, LimitsReport, base_units, counted, limit_of, name, planned};
pub use room::no_room;
