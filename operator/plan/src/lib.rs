//! Plans jobs that are not submitted yet. Pure.
//!
//! The caller prepares each job: it compiles the job, asks the policies, and makes the gang of the
//! engine. `trellis plan` does so from files or from lists of the cluster, and the operator does so
//! from its caches. From there on both take the steps of this crate: `placement` lets the engine
//! decide, `claims` predicts the volumes, and `description` describes the outcome.

mod claims;
mod current_place;
mod description;
mod holds;
mod namespace_quotas;
mod placement;
mod planned_job;

pub use claims::{bind_claims, choose_steps};
pub use current_place::{current_place, current_plan};
pub use description::{describe, preempted};
pub use holds::{check_root, hold_without_policies};
pub use namespace_quotas::NamespaceQuotas;
pub use placement::{PlacementFacts, measure_levels, place_jobs};
pub use planned_job::{PlannedJob, later_groups};
