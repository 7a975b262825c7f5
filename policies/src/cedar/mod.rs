//! Policies in the Cedar language. Cedar's types stay inside this module.
//!
//! Objects become a set of [`Policies`] ([`PolicyLoader::load`]). A compiled job becomes requests,
//! and each request gets a [`RequestDecision`] ([`authorize`]). An undecided request is not
//! allowed.

mod action;
mod bounds;
mod cidr;
mod compile;
mod decision;
mod decision_report;
mod entity;
mod entity_kind;
mod evaluation;
mod examination;
mod expectation;
mod external_pods;
mod format;
mod image_name;
mod inline_tests;
mod job_decision;
mod job_requests;
mod lint;
mod policy_cost;
mod policy_index;
mod policy_object;
mod policy_part;
mod policy_request;
mod policy_set;
mod principal;
mod problem;
mod request_context;
mod schema;
pub mod starter_set;
mod test_request;
#[cfg(test)]
mod tests;

pub use action::Action;
pub use decision::{RequestDecision, RequestVerdict, UndecidedReason, UnenforcedResult};
pub use examination::Examination;
pub use expectation::{check_expectation, undecided_failure};
pub use external_pods::{AuthorizedExternalPods, ExternalPodsFacts, ExternalPodsQuery};
pub use format::format;
pub use inline_tests::PolicyTestResult;
pub use job_decision::{JobDecision, NotAuthorized, authorize, decide_job};
pub use job_requests::{DescribedRequest, SubmissionFacts};
pub use policy_cost::{
    MAX_NAMESPACE_OBJECTS, MAX_NAMESPACE_POLICIES, MAX_NAMESPACE_STEPS, MAX_TEXT,
};
pub use policy_object::{ObjectKey, PolicyObject};
pub use policy_part::PolicyPart;
pub use policy_request::{NamespacedName, NetworkPeer, PolicyRequest, RemoteSecretRef, VolumeKind};
pub use policy_set::{ObjectLoadResult, Policies, PolicyLoader, PolicyObjectState};
pub use principal::{JobAttributes, Requester, RequestingNamespace};
pub use problem::{PolicyProblem, TextPosition};
pub use schema::{SCHEMA_VERSION, SchemaError, schema_json, schema_text};
