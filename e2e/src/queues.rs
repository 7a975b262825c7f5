//! Queues of a test.

use serde_json::{Value, json};

/// The `resourceGroups` of a queue: so many GPUs of each flavor, with more cores and memory than
/// jobs of a test ask for.
#[must_use]
pub fn resource_groups(flavors: &[(&str, i64)]) -> Value {
    let flavor = |(name, gpus): &(&str, i64)| {
        json!({"name": name, "quotas": [
            {"resource": "cpu", "nominal": 1000},
            {"resource": "memory", "nominal": "1000Gi"},
            {"resource": "nvidia.com/gpu", "nominal": gpus},
        ]})
    };
    let flavors: Vec<_> = flavors.iter().map(flavor).collect();
    json!([{"resources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": flavors}])
}
