//! QuotaPolicies on a cluster: which take effect, what they say of jobs, what is burnt
//! of them, and what is written about them. The engine keeps the account of what is held.

mod account;
mod hours;
mod judge;
mod ledger;
mod limits;
mod room;
mod set;
mod status;

pub use account::{Account, account_of, read as read_ledger};
pub use hours::Hours;
pub use judge::{Asked, held, judge};
pub use limits::{JobLimits, LimitsReport, base_units, counted, limit_of, name, planned};
pub use room::no_room;
pub use set::QuotaSet;
pub use status::{keep_quota_status, missing_flavors, takes_no_effect};
