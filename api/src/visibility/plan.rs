//! The outcome of jobs that are not submitted yet.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Explanation, JobRef, OtherJobs, Preempted, RequestChange, ServedResource, resource};
use crate::Reason;
use crate::job::LevelPlacement;

/// A question to the operator: what happens to these TrainingJobs if the caller applies them now? A
/// client creates the object, as it creates a SelfSubjectAccessReview, and gets it back with its
/// status. Nothing is stored, and no job is created.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Namespace of the jobs. The object needs no name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The jobs.
    #[serde(default)]
    pub spec: PlanSpec,
    /// The answer. A client leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PlanStatus>,
}

/// The jobs to plan.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanSpec {
    /// The TrainingJobs, 1 to 16, as they would be applied, in this order. All of them belong to the
    /// namespace of the Plan. A job of an existing name is planned as a change of that job.
    #[serde(default)]
    #[schemars(schema_with = "manifests")]
    pub jobs: Vec<Value>,
}

impl PlanSpec {
    /// Most jobs of one plan.
    pub const MAX_JOBS: usize = 16;
}

fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// The outcome of the jobs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Time of the cluster's state.
    pub time: Time,
    /// The jobs, in the order of the spec.
    #[serde(default)]
    pub jobs: Vec<PlannedJob>,
}

/// The outcome of one job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedJob {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// The outcome.
    pub verdict: PlanVerdict,
    /// Reason why the job would not start, from the list in docs/reasons.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Queue of the job. Absent: the job cannot be compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority of the job: higher goes first. Absent: the job cannot be compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The objects that the job becomes, in words: `Pods llm-worker-0..7 (8)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Amounts of CPU and memory that other objects set, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<String>,
    /// The slices of the job and of its task groups, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<String>,
    /// The later stages, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_stages: Vec<String>,
    /// Places of the task groups. Empty: the job would not start now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_groups: Vec<PlannedTaskGroup>,
    /// Number of nodes that the pods would run on. Absent: the job would not start now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// How the ranks would follow the topology, by level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<LevelPlacement>,
    /// Claims that would be bound before the pods are created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<PlannedClaim>,
    /// Jobs that would have to leave first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<Preempted>,
    /// Jobs that would have to leave first, in namespaces that the caller may not read: counts by
    /// priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts_others: Vec<OtherJobs>,
    /// Facts that the user might not expect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why the job would wait for its place, as for a job that waits. Absent: the scheduler would not
    /// keep it waiting, or has no explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Smaller shapes of the job. With any one of them, it would start now without preemption. Absent:
    /// the search found none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smaller_shapes: Vec<RequestChange>,
}

/// The outcome of a planned job.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum PlanVerdict {
    /// It would start now, or once its victims have left. A job that runs already keeps its place.
    Runs,
    /// It would wait.
    Waits,
    /// It would be Refused, until it or the rule that refuses it changes.
    Refused,
    /// It has ended, and does not run again.
    Ended,
}

impl fmt::Display for PlanVerdict {
    /// Writes the verdict as `trellis plan` prints it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Runs => "would run",
            Self::Waits => "would wait",
            Self::Refused => "would be Refused",
            Self::Ended => "would not run",
        })
    }
}

/// The place of a task group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTaskGroup {
    /// Name of the task group.
    pub name: String,
    /// Number of its pods in the gang.
    pub pods: i64,
    /// The nodes of these pods, in the order of their ranks. Absent: the caller may not read nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PodsOnNode>,
}

/// Pods on one node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodsOnNode {
    /// Name of the node.
    pub node: String,
    /// Number of pods.
    pub pods: u32,
}

/// A claim that would be bound before the pods are created: to a volume, or to a new volume for a
/// node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedClaim {
    /// Name of the claim.
    pub claim: String,
    /// Volume that it would be bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Node for which its volume would be provisioned. Absent: it exists, or the caller may not read
    /// nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

resource!(
    Plan,
    NamespaceResourceScope,
    ServedResource {
        kind: "Plan",
        plural: "plans",
        singular: "plan",
        short_names: &[],
        namespaced: true,
        verbs: &["create"],
    }
);

impl Plan {
    /// Returns the question about these jobs of a namespace.
    #[must_use]
    pub fn new(namespace: &str, jobs: Vec<Value>) -> Self {
        Self {
            types: TypeMeta::resource::<Self>(),
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            spec: PlanSpec { jobs },
            status: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_in_yaml_reads_back() {
        let text = r"
apiVersion: visibility.trellis.dev/v1alpha1
kind: Plan
metadata: {namespace: team-a}
spec:
  jobs:
  - apiVersion: trellis.dev/v1alpha1
    kind: TrainingJob
    metadata: {name: llm}
    spec: {taskGroups: []}
";
        let read: Plan = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read.spec.jobs[0]["metadata"]["name"], "llm");
        let json = serde_json::to_value(&read).unwrap();
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), read);
        let refused = serde_saphyr::from_str::<PlanSpec>("{jobs: [], job: {}}");
        assert!(refused.unwrap_err().to_string().contains("job"));
    }
}
