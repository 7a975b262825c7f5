//! QuotaPolicies: writes their status and their ledgers.

mod ledger;
mod status;

pub use status::{maintain_quota_status, no_effect_message};
