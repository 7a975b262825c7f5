//! A policy object of either kind, as compiling it needs it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trellis_api::job_policy::{OnViolation, PolicyTest};
use trellis_api::{ClusterJobPolicy, Enforcement, JobPolicy};

use crate::cedar::request::RequestingNamespace;
use crate::selector::{is_valid, selects};

/// Which object: of the cluster, or of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace of a JobPolicy. None: a ClusterJobPolicy.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "JobPolicy",
            None => "ClusterJobPolicy",
        }
    }
}

/// `<name>` or `<namespace>/<name>`: what the ids of its policies begin with.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A policy object.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// Which.
    pub key: ObjectKey,
    /// Uid of the object: a new object of the same name does not inherit its last valid version.
    pub uid: String,
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// The text of its policies.
    pub cedar: String,
    /// How the policies are enforced: Deny, Warn or Audit.
    pub enforcement: Enforcement,
    /// Action on running jobs that the policies forbid.
    pub on_violation: OnViolation,
    /// Namespaces that they decide about. None: all, or the object's own.
    pub selector: Option<LabelSelector>,
    /// Tests of the policies.
    pub tests: Vec<PolicyTest>,
    /// The decoding error, if any. Then nothing else about the object is known.
    pub decode_error: Option<String>,
}

impl PolicyObject {
    /// An object that is there and does not decode. It may be meant for every
    /// namespace that it can be meant for.
    #[must_use]
    pub fn from_decode_error(key: ObjectKey, uid: String, why: String) -> Self {
        Self {
            key,
            uid,
            generation: None,
            cedar: String::new(),
            enforcement: Enforcement::Deny,
            on_violation: OnViolation::Report,
            selector: None,
            tests: Vec::new(),
            decode_error: Some(why),
        }
    }

    /// True if the object evicts running jobs that its policies forbid. Only objects enforced as
    /// Deny do.
    pub(crate) fn evicts(&self) -> bool {
        self.enforcement == Enforcement::Deny && self.on_violation == OnViolation::Evict
    }

    /// True if its policies decide about jobs of this namespace: by construction
    /// its own alone, of a JobPolicy.
    pub(crate) fn reaches(&self, subject: &RequestingNamespace<'_>) -> bool {
        match (&self.key.namespace, &self.selector) {
            (Some(own), _) => own == subject.namespace,
            (None, None) => true,
            (None, Some(selector)) => selects(Some(selector), subject.labels),
        }
    }

    /// True if the object may apply to jobs of this namespace. An unreadable selector may select
    /// every namespace.
    pub(crate) fn may_reach(&self, subject: &RequestingNamespace<'_>) -> bool {
        let readable = self.selector.as_ref().is_none_or(is_valid);
        self.reaches(subject) || (self.key.namespace.is_none() && !readable)
    }
}

impl From<&ClusterJobPolicy> for PolicyObject {
    fn from(object: &ClusterJobPolicy) -> Self {
        Self {
            key: ObjectKey {
                namespace: None,
                name: object.metadata.name.clone().unwrap_or_default(),
            },
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation: object.metadata.generation,
            cedar: object.spec.cedar.clone(),
            enforcement: object.spec.enforcement(),
            on_violation: object.spec.on_violation(),
            selector: object.spec.namespace_selector.clone(),
            tests: object.spec.tests.clone(),
            decode_error: None,
        }
    }
}

impl From<&JobPolicy> for PolicyObject {
    fn from(object: &JobPolicy) -> Self {
        Self {
            key: ObjectKey {
                // A JobPolicy without a namespace is no cluster object either: it reaches no job.
                namespace: Some(object.metadata.namespace.clone().unwrap_or_default()),
                name: object.metadata.name.clone().unwrap_or_default(),
            },
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation: object.metadata.generation,
            cedar: object.spec.cedar.clone(),
            enforcement: object.spec.enforcement(),
            on_violation: object.spec.on_violation(),
            selector: None,
            tests: object.spec.tests.clone(),
            decode_error: None,
        }
    }
}
