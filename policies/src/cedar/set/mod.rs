//! All policy objects together: which of them take effect, and in which version.

mod load_result;
mod policy_part;
mod policy_set;

pub use load_result::{ObjectLoadResult, PolicyObjectState};
pub use policy_part::PolicyPart;
pub use policy_set::{Policies, PolicyLoader};
