//! Policies in the Cedar language. Cedar's types stay inside this module.
//!
//! Objects become a set of [`Policies`] ([`PolicyLoader::load`]). A compiled job becomes requests,
//! and each request gets a [`RequestDecision`] ([`authorize`]). An undecided request is not
//! allowed.

mod decision_report;
mod evaluation;
mod examination;
mod external_pods;
mod job_decision;
mod job_requests;
mod object;
mod problem;
mod request;
mod set;
pub mod starter_set;
#[cfg(test)]
mod tests;

pub use evaluation::{RequestDecision, RequestVerdict, UndecidedReason, UnenforcedResult};
pub use examination::{Examination, PolicyTestResult, check_expectation, undecided_failure};
pub use external_pods::{AuthorizedExternalPods, ExternalPodsFacts, ExternalPodsQuery};
pub use job_decision::{JobDecision, NotAuthorized, authorize, decide_job};
pub use job_requests::{DescribedRequest, SubmissionFacts};
pub use object::{
    MAX_NAMESPACE_OBJECTS, MAX_NAMESPACE_POLICIES, MAX_NAMESPACE_STEPS, ObjectKey, PolicyObject,
    format,
};
pub use problem::{PolicyProblem, TextPosition};
pub use request::{
    ImageReference, JobAttributes, JobItself, MAX_TEXT, NamespacedName, NetworkPeer, PolicyRequest,
    QueueUse, RemoteSecretRef, Requester, RequestingNamespace, SCHEMA_VERSION, SchemaError,
    SecretRef, VolumeKind, VolumeRef, schema_json, schema_text,
};
pub use set::{ObjectLoadResult, Policies, PolicyLoader, PolicyObjectState, PolicyPart};
