//! Pods that others have made, of a Job or of anybody, and that name `schedulerName: trellis`:
//! external pods. They are bound, not created. Those of one PodGroup are a gang, any other is a
//! gang of one.
//!
//! `unit` names them, `next` says what is to be done about a gang and `single` about a pod alone
//! (both pure), `asks` is what pods ask for, and `find_asks` finds it out (`alike`, `queue`, `limits`,
//! `own_claims`), `form` puts that into the engine's words, `standing` what they have, `plan` both into
//! the journal's.

mod alike;
pub mod asks;
pub mod find_asks;
pub mod form;
pub mod limits;
pub mod next;
mod own_claims;
pub mod plan;
pub mod queue;
pub mod single;
pub mod standing;
#[cfg(test)]
mod tests;
pub mod total;
mod unit;

pub use unit::{
    Unit, gang_name, is_external, is_users, of_group, of_name, of_pod, pod_group, unit,
};
