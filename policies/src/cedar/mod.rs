//! Policies in the Cedar language. Cedar's types stay inside this module.
//!
//! Objects become a set of [`Policies`] ([`Loader::load`]). A compiled job becomes requests, and
//! each request gets a [`Decision`] ([`authorize`]). An undecided request is not allowed.

mod action;
mod ask;
mod bounds;
mod compile;
mod decision;
mod demands;
mod door;
mod entity;
mod evaluate;
mod examine;
mod expect;
mod format;
mod image;
mod index;
mod inline;
mod kind;
mod lint;
mod network;
mod object;
mod part;
mod pods;
mod problem;
mod request;
mod scene;
mod schema;
mod set;
pub mod starter;
mod subject;
#[cfg(test)]
mod tests;
mod told;
mod weight;

pub use action::Action;
pub use ask::{Ask, Far, Object, Remote, VolumeKind};
pub use decision::{Beside, Decision, Undecided, Verdict};
pub use demands::{Demanded, Submission};
pub use door::{JobDecision, NotAuthorized, authorize, decide_job};
pub use examine::Examined;
pub use expect::{compare, undecided};
pub use format::format;
pub use inline::Tested;
pub use object::{ObjectKey, PolicyObject};
pub use part::Part;
pub use pods::{AuthorizedPods, PodsAsking, PodsQuestion};
pub use problem::{Place, Problem};
pub use schema::{SCHEMA_VERSION, SchemaError, schema_json, schema_text};
pub use set::{Loader, ObjectState, ObjectVerdict, Policies};
pub use subject::{About, Requester, Subject};
pub use weight::{MAX_TEXT, NAMESPACE_OBJECTS, NAMESPACE_POLICIES, NAMESPACE_STEPS};
