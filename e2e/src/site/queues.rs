//! Queues of a test.

use serde_json::{Value, json};

/// Returns the `resourceGroups` of a queue: the given number of GPUs per flavor, and more cores and
/// memory than the jobs of a test request.
#[must_use]
pub fn resource_groups(flavors: &[(&str, i64)]) -> Value {
    let flavor = |(name, gpus): &(&str, i64)| {
        json!({"name": name, "resources": [
            {"name": "cpu", "nominalQuota": 1000},
            {"name": "memory", "nominalQuota": "1000Gi"},
            {"name": "nvidia.com/gpu", "nominalQuota": gpus},
        ]})
    };
    let flavors: Vec<_> = flavors.iter().map(flavor).collect();
    json!([{"coveredResources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": flavors}])
}
