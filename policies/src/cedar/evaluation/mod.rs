//! The answer to one request: the policies that can concern it, and what they decide.

mod decision;
mod evaluate;
mod policy_index;

pub use decision::{RequestDecision, RequestVerdict, UndecidedReason, UnenforcedResult};
pub(crate) use evaluate::decide_request;
pub(crate) use policy_index::{DuplicateId, PolicyIndex};
