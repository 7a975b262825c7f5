//! One gang: its observed state, and the decision about its next step. Pure: the module reads no
//! cluster and writes nothing.
//!
//! `observed` holds the parts of the cluster's objects that Trellis reads. `lookup`, `claims` and
//! `quota` find what a job names. `lifecycle` evaluates a TrainingJob, `keeper` decides the next
//! step for its gang, and `external` does the same for pods of other controllers. `journal` is the
//! record in the PodGroup, and `engine` converts gangs into the engine's form.

pub mod admitted;
pub mod allocation;
pub mod binding;
pub mod build;
mod certificate;
pub mod claims;
pub mod conditions;
pub mod constraints;
pub mod deletions;
pub mod engine;
pub mod epoch;
pub mod eviction;
pub mod external;
mod failure;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod flavors;
pub mod held;
pub mod journal;
pub mod keeper;
pub mod key;
pub mod lifecycle;
pub mod lookup;
pub mod namespace_quota;
pub mod neighbours;
pub mod observed;
pub mod open_plans;
pub mod patch;
pub mod pod_usage;
pub mod quota;
pub mod request;
pub mod reserve;
pub mod rules;
pub mod surplus;
pub mod unsupported;
pub mod volumes;
mod wish;

pub use certificate::Certificate;
pub use failure::{Blame, Fault};
pub use held::Held;
pub use journal::{PLAN_TIME, has_all, made_at, makes_room, members as plan_members};
pub use lifecycle::avoid_for;
pub use lifecycle::backoff;
pub use rules::matching;
pub use surplus::{AT_ONCE, GROWS_EVERY};
pub use wish::{Attempt, Run, Wish};
