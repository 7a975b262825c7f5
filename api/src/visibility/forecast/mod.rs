//! A forecast of the cluster after some changes.

mod change;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{
    AddedJob, AddedNodes, AddedTaskGroup, ChangedJob, ChangedQueue, ChangedQuota, ForecastChange,
    NamedNode,
};

use super::{JobRef, ServedResource, resource};

/// A question to the scheduler: which jobs start earlier or later after these changes? A client
/// creates the object, as it creates a SelfSubjectAccessReview, and gets it back with its status.
/// Nothing is stored, and nothing in the cluster changes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Needs no name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The changes.
    #[serde(default)]
    pub spec: ForecastSpec,
    /// The answer. A client leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ForecastStatus>,
}

/// The changes, made in this order. All of them take effect at `status.time`.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForecastSpec {
    /// The changes, at most 64. Without any, the status has no jobs.
    #[serde(default)]
    pub changes: Vec<ForecastChange>,
}

impl ForecastSpec {
    /// Most changes of one forecast.
    pub const MAX_CHANGES: usize = 64;
}

/// The effect of the changes on the jobs, if no other job arrives and running jobs end when expected.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ForecastStatus {
    /// Time of the state from which the scheduler looks ahead.
    pub time: Time,
    /// The jobs that the changes move, by namespace and name.
    #[serde(default)]
    pub jobs: Vec<MovedJob>,
    /// Number of jobs that start and end as without the changes, as far as `horizon`.
    pub unmoved: u64,
    /// Time at which the scheduler stopped looking ahead, because it had reached its limit. Later times
    /// are absent in `jobs`. Absent: it looked as far as anything happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Time>,
}

/// A job that starts or ends at another time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MovedJob {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// Queue of the job after the changes.
    pub queue: String,
    /// Number of devices of its gang.
    pub gpus: i64,
    /// Effect of the changes on it.
    pub effect: ForecastEffect,
    /// Its times without the changes. Absent: the changes add it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ExpectedTimes>,
    /// Its times with the changes. Absent: the changes remove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ExpectedTimes>,
}

/// Effect of changes on a job.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum ForecastEffect {
    /// It starts earlier, or starts at all.
    Earlier,
    /// It starts later, or has no expected start any more.
    Later,
    /// It has to leave its place before its work ends.
    Stops,
    /// It no longer has to leave its place before its work ends.
    Stays,
    /// It starts at the same time, and ends at another.
    OtherEnd,
    /// The changes add it.
    Added,
    /// The changes remove it.
    Removed,
}

/// When a job is expected to start and to end.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedTimes {
    /// True if it holds its place already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placed: bool,
    /// Its next start. Absent: it holds its place, or its start is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    /// The end of its run, or of the run that starts then. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
    /// True if this run ends before its work does: the job makes room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
}

resource!(
    Forecast,
    ClusterResourceScope,
    ServedResource {
        kind: "Forecast",
        plural: "forecasts",
        singular: "forecast",
        short_names: &[],
        namespaced: false,
        verbs: &["create"],
    }
);

impl Forecast {
    /// Returns the question that these changes ask.
    #[must_use]
    pub fn new(changes: Vec<ForecastChange>) -> Self {
        Self {
            types: TypeMeta::resource::<Self>(),
            metadata: ObjectMeta::default(),
            spec: ForecastSpec { changes },
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
kind: Forecast
spec:
  changes:
  - addNodes: {like: gpu-0, count: 4, labels: {rack: r9}}
  - removeNode: {name: gpu-1}
  - changeQueue:
      name: research
      quotas: [{resource: nvidia.com/gpu, flavor: h100, nominal: '64'}]
  - changeJob: {namespace: team-a, name: llm, priority: 1000}
  - addJob:
      namespace: team-a
      name: next
      groups: [{replicas: 8, requests: {nvidia.com/gpu: '8'}}]
";
        let read: Forecast = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read.spec.changes.len(), 5);
        let json = serde_json::to_value(&read).unwrap();
        assert_eq!(json["spec"]["changes"][1]["removeNode"]["name"], "gpu-1");
        assert_eq!(serde_json::from_value::<Forecast>(json).unwrap(), read);
    }

    #[test]
    fn change_with_an_unknown_field_or_two_kinds_is_refused() {
        let parse =
            |change: &str| serde_saphyr::from_str::<ForecastSpec>(&format!("changes: [{change}]"));
        assert!(parse("{removeNode: {name: a}}").is_ok());
        for change in [
            "{removeNode: {name: a, force: true}}",
            "{removeNode: {name: a}, cordonNode: {name: b}}",
            "{deleteNode: {name: a}}",
        ] {
            assert!(parse(change).is_err(), "{change}");
        }
    }

    #[test]
    fn schema_of_a_change_has_every_kind_with_its_fields() {
        let schemas = crate::visibility::schemas();
        let (_, schema) = schemas
            .into_iter()
            .find(|(served, _)| served.kind == "Forecast")
            .unwrap();
        let change = &schema["properties"]["spec"]["properties"]["changes"]["items"];
        let fields = change["properties"].as_object().unwrap();
        assert_eq!(fields.len(), 8, "{fields:?}");
        assert_eq!(
            fields["removeNode"]["description"],
            "Removes a node. Jobs that hold it lose their place and wait again."
        );
        let name = &fields["removeNode"]["properties"]["name"];
        assert_eq!(name["type"], "string");
        assert_eq!(change["maxProperties"], 1);
    }
}
