//! Gangs of external pods: pods of another controller with `schedulerName: trellis`. Trellis binds
//! them and does not create them. The pods of one PodGroup are a gang, any other pod is a gang of
//! one.
//!
//! `unit` names a gang, and `asks` holds its demand. `next` decides the next step of a gang,
//! `single` that of a pod alone. `form` converts waiting gangs into the engine's form, `standing`
//! placed gangs, and `plan` writes them into the journal.

pub mod asks;
pub mod form;
pub mod next;
pub mod own_claims;
pub mod plan;
pub mod single;
pub mod standing;
#[cfg(test)]
mod tests;
pub mod total;
mod unit;

pub use unit::{
    Unit, gang_name, is_external, is_users, of_group, of_name, of_pod, pod_group, unit,
};
