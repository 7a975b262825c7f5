//! [`ClusterJobPolicy`] and [`JobPolicy`]: the permissions of jobs.

mod action;
mod policy_test;
mod status;

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

pub use action::Action;
pub use policy_test::{
    ExpectedDecision, PolicyTest, TestContext, TestRequest, TestRequester, TestResource, TestStore,
    TestVolumeKind,
};
pub use status::{JobPolicyStatus, PolicyViolation};

/// Permissions of jobs, in all namespaces or in selected ones.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "ClusterJobPolicy",
    plural = "clusterjobpolicies",
    shortname = "cjobpol",
    category = "trellis",
    status = "JobPolicyStatus",
    derive = "PartialEq",
    doc = "Permissions of jobs, in all namespaces or in selected ones.",
    validation = rules::POLICY_OBJECT_NAME.to_cel_rule(),
    printcolumn(
        name = "Enforcement",
        type_ = "string",
        json_path = ".spec.enforcement"
    ),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type=='Active')].status"),
    printcolumn(name = "Violations", type_ = "integer", json_path = ".status.violationCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ClusterJobPolicySpec {
    /// Policies in the Cedar language, written against Trellis' schema (docs/policies.md). At most
    /// 65536 characters.
    #[schemars(length(max = 65536))]
    #[garde(custom(rules::policy_text))]
    #[x_kube(validation = rules::POLICY_TEXT.to_cel_rule())]
    pub cedar: String,
    /// Effect of the policies. Absent: Deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// Effect on a running job that a forbid of these policies denies. Only Deny policies have it.
    /// Absent: Report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_violation: Option<OnViolation>,
    /// Namespaces whose jobs the policies apply to. Absent or `{}`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Tests of the policies. If one fails, the policies do not take effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 64), dive, custom(rules::unique_tests))]
    pub tests: Vec<PolicyTest>,
}

/// Restrictions on the jobs of this namespace. A JobPolicy can only deny: its forbids apply, and
/// its permits grant nothing.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "JobPolicy",
    plural = "jobpolicies",
    shortname = "jobpol",
    category = "trellis",
    namespaced,
    status = "JobPolicyStatus",
    derive = "PartialEq",
    doc = "Restrictions on the jobs of this namespace. A JobPolicy can only deny: its forbids apply, and its permits grant nothing.",
    validation = rules::POLICY_OBJECT_NAME.to_cel_rule(),
    printcolumn(
        name = "Enforcement",
        type_ = "string",
        json_path = ".spec.enforcement"
    ),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type=='Active')].status"),
    printcolumn(name = "Violations", type_ = "integer", json_path = ".status.violationCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct JobPolicySpec {
    /// Policies in the Cedar language, written against Trellis' schema (docs/policies.md). They
    /// apply only to jobs of this namespace. At most 65536 characters.
    #[schemars(length(max = 65536))]
    #[garde(custom(rules::policy_text))]
    #[x_kube(validation = rules::POLICY_TEXT.to_cel_rule())]
    pub cedar: String,
    /// Effect of the policies. Absent: Deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// Effect on a running job that a forbid of these policies denies. Only Deny policies have it.
    /// Absent: Report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_violation: Option<OnViolation>,
    /// Tests of the policies. If one fails, the policies do not take effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 64), dive, custom(rules::unique_tests))]
    pub tests: Vec<PolicyTest>,
}

/// Effect of the policies. Deny: they permit and deny; Warn: the API server warns the submitter of
/// each request that they would deny; Audit: such requests are only counted. Absent: Deny.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Hash,
)]
pub enum Enforcement {
    /// The policies permit and deny.
    #[default]
    Deny,
    /// The API server warns the submitter of requests that the policies would deny.
    Warn,
    /// Requests that the policies would deny are only counted.
    Audit,
}

impl Enforcement {
    /// Returns the word as the spec has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

/// Effect on a running job that a forbid of Deny policies denies. Report: the job goes on, and its
/// status and an event report the violation; Evict: the operator stops the job, with the grace of
/// its pods. Absent: Report.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnViolation {
    /// The job goes on; its status and an event report the violation.
    #[default]
    Report,
    /// The operator stops the job.
    Evict,
}

impl JobPolicySpec {
    /// Returns `enforcement`, by default Deny.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement.unwrap_or_default()
    }

    /// Returns `onViolation`, by default Report.
    #[must_use]
    pub fn on_violation(&self) -> OnViolation {
        self.on_violation.unwrap_or_default()
    }
}

impl ClusterJobPolicySpec {
    /// Returns `enforcement`, by default Deny.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement.unwrap_or_default()
    }

    /// Returns `onViolation`, by default Report.
    #[must_use]
    pub fn on_violation(&self) -> OnViolation {
        self.on_violation.unwrap_or_default()
    }
}
