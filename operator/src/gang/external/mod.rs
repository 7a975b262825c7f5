//! Gangs of external pods: pods of another controller that name `schedulerName: trellis`. Trellis
//! binds them and does not create them. The pods of one PodGroup are a gang, any other pod is a gang
//! of one.
//!
//! `unit` names a gang, `asks` is what its pods ask for. `next` says what is to be done about a gang
//! and `single` about a pod alone. `form` puts both into the engine's words, `standing` what they
//! have, `plan` into the journal's.

pub mod asks;
pub mod form;
pub mod next;
pub(crate) mod own_claims;
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
