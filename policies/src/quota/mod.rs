//! How much? Arithmetic on declared limits, and no language: an overflow is a refusal,
//! never a zero.
//!
//! A [`QuotaPolicies`] says of a job ([`Asking`]) what it may never do, and which
//! limits it draws on ([`Draw`]). Who holds places keeps the account: the scheduler, which
//! reserves for the whole gang at once or not at all. [`recount`] says from what is
//! there what that account must be, and [`Meter`] what has been burnt in a window.

mod asking;
mod draw;
mod limit;
mod meter;
mod recount;
mod rule;
mod set;

pub use asking::Asking;
pub use draw::{Draw, Verdict};
pub use limit::{Holder, LimitId, What};
pub use meter::{Burnt, Meter};
pub use recount::{Held, Holding, recount};
pub use set::{QueueQuota, QuotaPolicies, Unusable};
