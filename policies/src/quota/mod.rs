//! Quotas: arithmetic on declared limits, without a policy language. An overflow is a refusal,
//! never a zero.
//!
//! [`QuotaPolicies`] determines for a job ([`Asking`]) why it may never run, and which limits it
//! counts against ([`Draw`]). The scheduler keeps the usage, because it reserves for the whole gang
//! at once or not at all. [`recount`] computes the usage from the existing jobs, and [`Meter`] the
//! GPU time used in a window.

mod asking;
mod draw;
mod limit;
mod meter;
mod missing_flavors;
mod recount;
mod rule;
mod set;

pub use asking::Asking;
pub use draw::{Draw, Verdict};
pub use limit::{Holder, LimitId, What};
pub use meter::{Burnt, Meter};
pub use missing_flavors::missing_flavors;
pub use recount::{Held, Holding, recount};
pub use set::{QueueQuota, QuotaPolicies, Unusable};
