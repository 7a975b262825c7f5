//! [`QuotaPolicy`]: limits on the usage of a team, a queue or a user.

mod limits;
mod status;

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

pub use limits::{GpuHours, QuotaLimits, ResourceLimit};
pub use status::{QuotaHolder, QuotaPolicyStatus, QuotaUse};

/// Limits on the usage of a subject's jobs.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "QuotaPolicy",
    plural = "quotapolicies",
    shortname = "quotapol",
    category = "trellis",
    status = "QuotaPolicyStatus",
    derive = "PartialEq",
    doc = "Limits on the usage of a subject's jobs.",
    validation = rules::POLICY_OBJECT_NAME.to_cel_rule(),
    printcolumn(name = "Enforcement", type_ = "string", json_path = ".spec.enforcement"),
    printcolumn(name = "Each", type_ = "string", json_path = ".spec.each"),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type=='Active')].status"),
    printcolumn(name = "Full", type_ = "integer", json_path = ".status.fullCount"),
    printcolumn(name = "GPU-Hours-Left", type_ = "string", json_path = ".status.gpuHoursLeft"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QuotaPolicySpec {
    /// Subject: the jobs that the limits apply to. A job must match every field that is set; `{}`:
    /// every job.
    #[garde(dive)]
    pub subject: QuotaSubject,
    /// Holder of the limits: the subject as a whole, or each user in it. Absent: Subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<QuotaEach>,
    /// Limits, at least one.
    #[garde(dive)]
    pub limits: QuotaLimits,
    /// Treatment of a job that exceeds a limit. Absent: Queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<QuotaEnforcement>,
}

/// Jobs that a QuotaPolicy counts. A job must match every field that is set.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QuotaSubject {
    /// Jobs in namespaces with these labels. Absent or `{}`: all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Jobs in namespaces whose label `trellis.dev/team` has this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::label_value)))]
    #[x_kube(validation = rules::LABEL_VALUE.to_cel_rule())]
    pub team: Option<String>,
    /// Jobs of this queue and of the queues below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::queue_name)))]
    #[x_kube(validation = rules::QUEUE_NAME.to_cel_rule())]
    pub queue_name: Option<String>,
    /// Jobs whose pods run as a ServiceAccount of this name, in any of the namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub service_account_name: Option<String>,
    /// Jobs that this user has submitted, and jobs of unknown users. The value is the user name
    /// that the API server authenticates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::user_name)))]
    #[x_kube(validation = rules::USER_NAME.to_cel_rule())]
    pub requester: Option<String>,
}

/// Holder of the limits. Subject: all jobs of the subject together; Requester: the jobs of each
/// user in the subject, with all jobs of unknown users as one. Absent: Subject.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuotaEach {
    /// The limits hold for all jobs of the subject together.
    #[default]
    Subject,
    /// The limits hold for each user's jobs in the subject separately.
    Requester,
}

/// Treatment of a job that exceeds a limit. Queue: the job waits until there is room; Deny: the job
/// is refused; Warn: the job runs, with a warning. Queue and Deny both refuse a job that could
/// never have room. Absent: Queue.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuotaEnforcement {
    /// The job waits until there is room.
    #[default]
    Queue,
    /// The job is refused.
    Deny,
    /// The job runs, with a warning.
    Warn,
}
