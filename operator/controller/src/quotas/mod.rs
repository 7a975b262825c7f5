//! QuotaPolicies: writes their status and their ledgers.

mod ledger;
mod status;

pub use status::{keep_quota_status, takes_no_effect};
