//! From the cluster to the engine, and from its decisions to pods.
//!
//! One task owns the engine. It hears what changes ([`Feed`]), asks the
//! `keeper` what each touched gang needs, lets the engine decide, and starts
//! the writes. It never waits for the API server itself.

pub mod admitted;
pub mod allocation;
pub mod binding;
mod certificate;
mod commit;
mod constraints;
mod deletions;
mod driver;
pub mod external;
mod feed;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod flavors;
pub mod gang;
mod journal;
mod keeper;
pub mod namespace_quota;
pub mod neighbours;
mod open_plans;
mod preflight;
mod reports;
pub mod request;
pub mod reserve;
mod surplus;
pub(crate) use surplus::{AT_ONCE, GROWS_EVERY};
pub(crate) mod unsupported;
pub mod volumes;
mod wish;

pub use certificate::Certificate;
pub use commit::{Committer, is_owned, is_there};
pub use driver::Driver;
pub use feed::{Feed, Heard, Tell, channel};
pub use journal::{PLAN_TIME, has_all, made_at, makes_room, members as plan_members};
pub use reports::{QueueReport, TotalsReport};
pub use wish::{Attempt, Run, Wish};
