//! TensorFlow: `TF_CONFIG`, with the cluster and the pod's task in it
//! (`tf.distribute.cluster_resolver.TFConfigClusterResolver`).
//!
//! The evaluator is no part of the cluster: its `TF_CONFIG` has its own task and the cluster that
//! it evaluates.

use serde::Serialize;
use trellis_api::framework::tensorflow::PORT;
use trellis_api::job::{Role, TaskGroup};

use super::{FrameworkEnvironment, FrameworkPort, Injection, NOTHING};
use crate::environment::{TrellisVariable, VariableValue};
use crate::gang_facts::GangFacts;

/// Addresses by task type.
#[derive(Default, Serialize)]
struct TensorFlowCluster {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chief: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    worker: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps: Vec<String>,
}

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment {
    inject,
    reaches_evaluators: true,
    ..NOTHING
};

fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let groups = gang.groups_by_rank();
    let mut cluster = TensorFlowCluster::default();
    for group in &groups {
        let addresses = gang
            .pod_addresses(group)
            .map(|host| format!("{host}:{PORT}"));
        match group.role() {
            Role::Coordinator => cluster.chief.extend(addresses),
            Role::Server => cluster.ps.extend(addresses),
            Role::Worker | Role::Launcher => cluster.worker.extend(addresses),
            Role::Evaluator => {}
        }
    }
    let before = groups.iter().take_while(|other| other.name != group.name);
    let first = before
        .filter(|other| task_type(other) == task_type(group))
        .fold(0_u32, |sum, other| sum.saturating_add(other.replicas()));
    // Vectors of strings are always JSON.
    let cluster = serde_json::to_string(&cluster).unwrap_or_default();
    let config = VariableValue::Numbered {
        before: format!(
            "{{\"cluster\":{cluster},\"task\":{{\"type\":\"{}\",\"index\":",
            task_type(group)
        ),
        first,
        after: "}}",
    };
    Injection {
        variables: vec![TrellisVariable::new("TF_CONFIG", config)],
        ports: vec![FrameworkPort {
            name: "tensorflow",
            number: PORT,
        }],
        ..Injection::default()
    }
}

/// The type of a group's tasks.
fn task_type(group: &TaskGroup) -> &'static str {
    match group.role() {
        Role::Coordinator => "chief",
        Role::Server => "ps",
        Role::Evaluator => "evaluator",
        Role::Worker | Role::Launcher => "worker",
    }
}
