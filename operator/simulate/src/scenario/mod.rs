//! Scenarios: a cluster and its events, written by hand.

mod scenario_autoscaler;
mod scenario_expectations;
mod time_span;

pub use scenario_autoscaler::{ScenarioAutoscaler, TimeRange};
pub use scenario_expectations::{JobList, ScenarioExpectations};
pub use time_span::TimeSpan;

use std::collections::BTreeMap;

use garde::Validate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trellis_api::quantity::Amount;
use trellis_api::{API_VERSION, Quantity};
use trellis_scheduler::TaintEffect;

/// `apiVersion` and `kind` of a scenario.
pub const KIND: (&str, &str) = (API_VERSION, "Scenario");

/// Greatest number of nodes of one pattern.
const MOST_NODES: u32 = 100_000;

/// A cluster and its events.
#[derive(Deserialize, Serialize, Validate, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Scenario {
    /// `trellis.dev/v1alpha1`.
    pub api_version: String,
    /// `Scenario`.
    pub kind: String,
    /// Name of the scenario, for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// Nodes and events of the scenario.
    #[garde(dive)]
    pub spec: ScenarioSpec,
}

/// Nodes and events of a scenario.
#[derive(Deserialize, Serialize, Validate, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ScenarioSpec {
    /// Seed of the random generator, if the simulation draws random numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Nodes, in addition to the nodes of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(dive)]
    pub nodes: Vec<NodePattern>,
    /// How new nodes arrive and are removed, by flavor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub autoscaler: BTreeMap<String, ScenarioAutoscaler>,
    /// Events. The objects of the files exist at time 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ScenarioEvent>,
}

/// Equal nodes.
#[derive(Deserialize, Serialize, Validate, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NodePattern {
    /// Number of nodes. Absent: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(check_count)))]
    pub count: Option<u32>,
    /// Name: `{i}` is the number of the node, from 0, `{i/4}` a fourth of it, rounded down.
    #[garde(custom(check_name))]
    pub name: String,
    /// Allocatable resources of each node. Pods: 110 if unset.
    #[serde(default)]
    #[garde(custom(check_capacity))]
    pub capacity: BTreeMap<String, Quantity>,
    /// Labels; values may have the same patterns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints, as in a Node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<ScenarioTaint>,
}

/// A taint, as in a Node.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect on pods that do not tolerate the taint.
    pub effect: TaintEffect,
}

/// An event: one of `apply`, `delete`, `fail`, `finish` and `expect`.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioEvent {
    /// Time of the event.
    pub at: TimeSpan,
    /// An object that is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Value>,
    /// Real runtime of the applied job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<TimeSpan>,
    /// An object that is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<DeletedObject>,
    /// A pod of a job that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<FailedPod>,
    /// A pod of a job that succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishedPod>,
    /// Expectations that must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<ScenarioExpectations>,
}

/// The object that is deleted.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeletedObject {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace. Absent: `default`, if the kind is namespaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A pod of a job that fails.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedPod {
    /// The pod's name, such as `llm-worker-0`.
    pub pod: String,
    /// The pod's namespace. Absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Exit code of its container. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The kubelet's reason, such as `OOMKilled`. Absent: `Error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A pod of a job that ends with success.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FinishedPod {
    /// The pod's name, such as `llm-worker-0`.
    pub pod: String,
    /// The pod's namespace. Absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

fn check_count(count: &u32, (): &()) -> garde::Result {
    if (1..=MOST_NODES).contains(count) {
        return Ok(());
    }
    let message = format!("must be 1 to {MOST_NODES}: use several patterns for more");
    Err(garde::Error::new(message))
}

fn check_name(name: &str, (): &()) -> garde::Result {
    if name.is_empty() {
        return Err(garde::Error::new(
            "must not be empty: write one, such as gpu-{i}",
        ));
    }
    Ok(())
}

fn check_capacity(capacity: &BTreeMap<String, Quantity>, (): &()) -> garde::Result {
    for (name, quantity) in capacity {
        let negative = match quantity.amount() {
            Ok(amount) => amount < Amount::ZERO,
            Err(error) => {
                let message = format!("{name}: {error}: write it as in 96, 500m or 1Ti");
                return Err(garde::Error::new(message));
            }
        };
        if negative {
            let message = format!("{name}: is negative: write 0 or more");
            return Err(garde::Error::new(message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_capacity_is_refused() {
        for (quantity, is_valid) in [
            ("0", true),
            ("8", true),
            ("-1", false),
            // Rounded up to thousandths, it would be 0.
            ("-0.0001", false),
            // More thousandths than an i64 counts.
            ("-1e25", false),
        ] {
            let capacity = BTreeMap::from([("cpu".to_owned(), Quantity::new(quantity))]);
            assert_eq!(
                check_capacity(&capacity, &()).is_ok(),
                is_valid,
                "{quantity}"
            );
        }
    }
}
