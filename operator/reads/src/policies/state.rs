//! The parts of policies and jobs that a reader of policies needs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::ResourceExt as _;
use serde::Serialize;
use trellis_api::job::{JobPhase, PolicyDecision, PolicyVerdict};
use trellis_api::job_policy::{Enforcement, JobPolicyStatus, OnViolation};
use trellis_api::quota_policy::{
    QuotaEach, QuotaEnforcement, QuotaLimits, QuotaPolicy, QuotaPolicyStatus, QuotaSubject,
};
use trellis_api::{ClusterJobPolicy, JobPolicy, TrainingJob};

/// A ClusterJobPolicy or a JobPolicy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobPolicyState {
    /// `ClusterJobPolicy` or `JobPolicy`.
    pub kind: &'static str,
    /// The namespace of a JobPolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// Number of the spec's version. A status of an older one is out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The policies in the Cedar language.
    pub cedar: String,
    /// Effect of the policies.
    pub enforcement: Enforcement,
    /// Effect on running jobs.
    pub on_violation: OnViolation,
    /// Namespaces of a ClusterJobPolicy. None: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Number of tests in the spec.
    pub test_count: usize,
    /// The status, if the operator has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<JobPolicyStatus>,
}

impl JobPolicyState {
    /// Sorts policies by kind, namespace and name.
    pub(super) fn key(&self) -> (&str, Option<&str>, &str) {
        (self.kind, self.namespace.as_deref(), &self.name)
    }
}

impl From<ClusterJobPolicy> for JobPolicyState {
    fn from(policy: ClusterJobPolicy) -> Self {
        Self {
            kind: "ClusterJobPolicy",
            namespace: None,
            name: policy.name_any(),
            generation: policy.metadata.generation,
            enforcement: policy.spec.enforcement(),
            on_violation: policy.spec.on_violation(),
            cedar: policy.spec.cedar,
            namespace_selector: policy.spec.namespace_selector,
            test_count: policy.spec.tests.len(),
            status: policy.status,
        }
    }
}

impl From<JobPolicy> for JobPolicyState {
    fn from(policy: JobPolicy) -> Self {
        Self {
            kind: "JobPolicy",
            namespace: policy.namespace(),
            name: policy.name_any(),
            generation: policy.metadata.generation,
            enforcement: policy.spec.enforcement(),
            on_violation: policy.spec.on_violation(),
            cedar: policy.spec.cedar,
            namespace_selector: None,
            test_count: policy.spec.tests.len(),
            status: policy.status,
        }
    }
}

/// A QuotaPolicy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPolicyState {
    /// The name.
    pub name: String,
    /// Number of the spec's version. A status of an older one is out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The jobs that the limits apply to.
    pub subject: QuotaSubject,
    /// Holder of the limits.
    pub each: QuotaEach,
    /// Treatment of a job that exceeds a limit.
    pub enforcement: QuotaEnforcement,
    /// The limits.
    pub limits: QuotaLimits,
    /// The status, if the operator has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<QuotaPolicyStatus>,
}

impl From<QuotaPolicy> for QuotaPolicyState {
    fn from(policy: QuotaPolicy) -> Self {
        Self {
            name: policy.name_any(),
            generation: policy.metadata.generation,
            each: policy.spec.each.unwrap_or_default(),
            enforcement: policy.spec.enforcement.unwrap_or_default(),
            subject: policy.spec.subject,
            limits: policy.spec.limits,
            status: policy.status,
        }
    }
}

/// A job that policies deny or warn, or have not decided on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobVerdict {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// The job's phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// The decision, as the job's status has it.
    pub policy: PolicyVerdict,
    /// Why the job is not accepted, if the condition `Accepted` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Condition>,
}

impl JobVerdict {
    /// Returns the decision about a job. None: the job has ended, or policies allow it without a
    /// warning.
    pub(super) fn of(job: &TrainingJob) -> Option<Self> {
        let status = job.status.as_ref()?;
        let policy = status.policy.clone()?;
        let is_allowed = matches!(policy.decision, Some(PolicyDecision::Allowed));
        let is_silent = policy.warnings.is_empty() && policy.errors.is_empty();
        if status.has_ended() || (is_allowed && is_silent) {
            return None;
        }
        let mut conditions = status.conditions.iter();
        let refusal = conditions.find(|own| own.type_ == "Accepted" && own.status == "False");
        Some(Self {
            namespace: job.namespace().unwrap_or_default(),
            name: job.name_any(),
            phase: status.phase,
            policy,
            refusal: refusal.cloned(),
        })
    }

    /// Sorts jobs by namespace and name.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}
