//! Gangs of external pods: pods of another controller with `schedulerName: trellis`. Trellis binds
//! them and does not create them. The pods of one PodGroup are a gang, any other pod is a gang of
//! one.
//!
//! `gang_key` names a gang, `gang_members` selects its pods, and `external_request` holds its
//! demand. `crate::gang_step` decides the next step of a gang, `single_pod` the next step of a
//! single pod. `engine_gang` converts waiting gangs into the engine's form, `placed_gang` placed
//! gangs, and `plan` writes them into the journal.

pub mod engine_gang;
pub mod ephemeral_claims;
pub mod external_demand;
pub mod external_request;
#[cfg(test)]
pub(crate) mod fixtures;
mod gang_key;
pub mod gang_members;
pub mod placed_gang;
pub mod plan;
pub mod single_pod;

pub use gang_key::{
    ExternalGangRef, gang_key_from_name, gang_name, is_external, is_user_created, job_ref,
    journal_pod_group, parse_gang_key, pod_gang_key, pod_group_gang_key,
};
