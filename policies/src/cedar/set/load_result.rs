//! The result of loading one object.

use crate::cedar::object::ObjectKey;
use crate::cedar::problem::PolicyProblem;

/// Load result of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectLoadResult {
    /// The object's name and kind.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// State: active, degraded or invalid.
    pub state: PolicyObjectState,
    /// Problems of its current version.
    pub problems: Vec<PolicyProblem>,
    /// Warnings: text that takes effect and does less than it seems to.
    pub warnings: Vec<PolicyProblem>,
    /// Ids of its policies that take effect: those of its last valid version if it is degraded.
    pub policy_ids: Vec<String>,
    /// True if one of these policies depends on who requests a job.
    pub reads_requester: bool,
}

/// Which version of an object takes effect, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyObjectState {
    /// Its current version takes effect.
    Active,
    /// Its current version is invalid, so its last valid version takes effect.
    Degraded,
    /// It has never been valid. Because the policies of a Deny object are then unknown, no job is
    /// allowed where it reaches.
    Invalid,
}
