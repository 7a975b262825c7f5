//! The changes that a forecast can make.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::JobRef;
use crate::Quantity;
use crate::queue::StopPolicy;

/// A change of the cluster. Each has exactly one field.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = one_object)]
pub enum ForecastChange {
    /// Adds empty nodes.
    AddNodes(AddedNodes),
    /// Removes a node. Jobs that hold it lose their place and wait again.
    RemoveNode(NamedNode),
    /// Cordons a node: pods that run on it stay.
    CordonNode(NamedNode),
    /// Makes a cordoned, not ready or unhealthy node usable.
    RestoreNode(NamedNode),
    /// Changes fields of a queue.
    ChangeQueue(ChangedQueue),
    /// Adds jobs that are submitted now.
    AddJob(AddedJob),
    /// Changes fields of a job.
    ChangeJob(ChangedJob),
    /// Removes a job.
    RemoveJob(JobRef),
}

/// Merges the schemas of the variants into one object with exactly one field, which `kubectl explain`
/// shows with all its fields.
fn one_object(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else {
        return;
    };
    let mut fields = Map::new();
    for variant in &variants {
        let properties = variant.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let mut property = property.clone();
            if let (Some(property), Some(about)) =
                (property.as_object_mut(), variant.get("description"))
            {
                property.insert("description".to_owned(), about.clone());
            }
            fields.insert(name.clone(), property);
        }
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), fields.into());
    schema.insert("minProperties".to_owned(), 1.into());
    schema.insert("maxProperties".to_owned(), 1.into());
}

/// Name of a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedNode {
    /// The node.
    pub name: String,
}

/// New nodes with the resources, labels and taints of an existing one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedNodes {
    /// Name of the existing node.
    pub like: String,
    /// Number of new nodes, from 1. All changes together add at most 10,000.
    pub count: u32,
    /// Labels that differ from those of the existing node, such as the rack. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Fields of a queue. An absent field stays as it is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangedQueue {
    /// The queue.
    pub name: String,
    /// Quotas that change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<ChangedQuota>,
    /// Priority among its siblings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Weight of its fair share, such as `2` or `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Quantity>,
    /// Stop state of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<StopPolicy>,
}

/// The quota of one resource in one flavor. An absent field stays as it is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangedQuota {
    /// Kubernetes name of the resource.
    pub resource: String,
    /// The flavor. Absent: the only flavor for which the queue has a quota of this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The amount that the queue owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Quantity>,
    /// How much it may borrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,
    /// How much it lends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<Quantity>,
}

/// New jobs. A job has either the shape of an existing job, or groups of its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedJob {
    /// Namespace of the new jobs.
    pub namespace: String,
    /// Name of the new job. If there are several, `-1` to `-COUNT` are appended.
    pub name: String,
    /// Number of jobs. Default: 1. All changes together add at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// A waiting or running job whose groups, constraints, topology, queue and priority the new jobs
    /// have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<JobRef>,
    /// Task groups of a job without `like`: at most 16, with at most 10,000 pods together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<AddedTaskGroup>,
    /// The queue. Default: that of `like`. Needed with `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The priority. Default: that of `like`, or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long a job runs. Default: that of `like`, or the default of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_seconds: Option<i64>,
}

/// Identical pods of a new job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedTaskGroup {
    /// Number of pods, from 1.
    pub replicas: u32,
    /// Resources that one pod requests, by Kubernetes name.
    pub requests: BTreeMap<String, Quantity>,
}

/// Fields of a job. An absent field stays as it is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangedJob {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job's JobState.
    pub name: String,
    /// The priority. A running job has the old one until it waits again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The queue. Only a waiting job can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How long its run takes in total, from its start. More than it has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_seconds: Option<i64>,
}
