//! One gang: its observed state, and the decision about its next step. Pure: the module reads no
//! cluster and writes nothing.
//!
//! `observed` holds the parts of the cluster's objects that Trellis reads. `lookup` and `quota` find
//! the objects that a job names, and `requirements` what its pods require of nodes. `build`
//! compiles and authorizes a job. `lifecycle` evaluates a TrainingJob, with `failure` for
//! failed attempts, and `surplus` for the pods beyond the gang. `gang_step` decides the next
//! step of its gang and of external gangs, and `external` describes pods of other controllers.
//! `journal` is the record in the PodGroup, `explanation` the reason why a gang waits, and `engine`
//! converts gangs into the engine's form. `placement_levels` measures how ranks follow a topology. `node_order` has the objects that ask autoscalers for nodes, and
//! `autoscaler_check` judges the settings of autoscalers.

pub mod admitted_pod;
pub mod autoscaler_check;
pub mod build;
#[cfg(test)]
mod commit_model;
mod completed_run;
pub mod conditions;
mod desired_gang;
mod ended_attempt;
pub mod engine;
pub mod explanation;
pub mod external;
mod failure;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod gang_indexes;
pub mod gang_step;
pub mod journal;
pub mod key;
pub mod lifecycle;
pub mod lookup;
pub mod node_order;
pub mod observed;
pub mod patch;
pub mod placement_levels;
pub mod quota;
pub mod requirements;
mod spare_slices;
pub mod surplus;

pub use completed_run::CompletedRun;
pub use desired_gang::{AuthorizedAttempt, DesiredAttempt, DesiredGang};
pub use ended_attempt::EndedAttempts;
pub use explanation::GangExplanation;
pub use explanation::job_hold::JobHold;
pub use failure::fault::{Blame, Fault, find_restart_rule};
pub use gang_indexes::GangIndexes;
pub use journal::{
    PLAN_TIMEOUT, is_plan_complete, is_preempted, members as plan_members, plan_start,
};
pub use lifecycle::exclusion_time;
pub use lifecycle::restart_backoff;
pub use surplus::{GROWTH_INTERVAL, MAX_PENDING_SURPLUS_UNITS};
