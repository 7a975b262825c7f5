//! [`QuotaPolicy`]: how much a team, a queue or a user may hold and burn.

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

/// How much the jobs of a subject may hold and burn.
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
    doc = "How much the jobs of a subject may hold and burn.",
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
    /// Subject: the jobs that the limits hold for. A job must match every field that is given;
    /// `{}`: every job.
    #[garde(dive)]
    pub subject: QuotaSubject,
    /// Whether the limits hold for the subject as a whole, or for each user in it.
    /// Absent: Subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<QuotaEach>,
    /// The limits: at least one.
    #[garde(dive)]
    pub limits: QuotaLimits,
    /// What becomes of a job for which a limit has no room. Absent: Queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<QuotaEnforcement>,
}

/// Whose jobs a QuotaPolicy counts. All that is given must hold.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QuotaSubject {
    /// Jobs of namespaces with such labels. Absent or `{}`: of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Jobs of namespaces whose label `trellis.dev/team` is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::label_value)))]
    #[x_kube(validation = rules::LABEL_VALUE.to_cel_rule())]
    pub team: Option<String>,
    /// Jobs of this queue and of those below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::queue_name)))]
    #[x_kube(validation = rules::QUEUE_NAME.to_cel_rule())]
    pub queue_name: Option<String>,
    /// Jobs whose pods run as the ServiceAccount of this name, of whichever of the
    /// namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub service_account_name: Option<String>,
    /// Jobs that the user of this name has submitted, and jobs of unknown users. The name is that
    /// by which the API server knows the user.
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
    /// Of all jobs of the subject together.
    #[default]
    Subject,
    /// Of each user's jobs in it by themselves.
    Requester,
}

/// Treatment of a job for which a limit has no room. Queue: the job waits until there is room;
/// Deny: the job is refused; Warn: the job runs, with a warning. Queue and Deny both refuse a job
/// that could never have room. Absent: Queue.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuotaEnforcement {
    /// It waits until there is room.
    #[default]
    Queue,
    /// It is refused.
    Deny,
    /// It runs, and that is told.
    Warn,
}
