//! What QuotaPolicies say of one job, and what of a limit is burnt. The engine keeps the account of
//! what is held.

pub(crate) mod account;
pub(crate) mod hours;
mod judge;
mod limits;
mod room;

pub use account::{Account, account_of, read as read_ledger};
pub use hours::Hours;
pub use judge::{Asked, held, judge};
pub use limits::{JobLimits, LimitsReport, base_units, counted, limit_of, name, planned};
pub use room::no_room;
