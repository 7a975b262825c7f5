//! Documents of other systems, and parts of imported objects.

use serde_json::Value;

pub const CONTAINER: &str = "name: c, image: 'i:1', resources: {limits: {cpu: 1, memory: 1Gi}}";

/// A policy on failed pods. Without one, the import adds a note.
pub const FAILED: &str = "  policies: [{event: PodFailed, action: RestartJob}]\n";

/// A Job of Volcano with these fields and tasks. Each task has a name and other fields.
pub fn volcano(fields: &str, tasks: &[(&str, &str)]) -> String {
    let failed = if fields.contains("policies:") {
        ""
    } else {
        FAILED
    };
    let tasks: String = tasks
        .iter()
        .map(|(name, beside)| {
            format!("  - {{name: {name}, {beside} template: {{spec: {{containers: [{{{CONTAINER}}}]}}}}}}\n")
        })
        .collect();
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n{failed}{fields}  tasks:\n{tasks}"
    )
}

/// A Job of Kueue with these fields, and this spec of its pods.
pub fn kueue(fields: &str, pods: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a, labels: {{kueue.x-k8s.io/queue-name: q}}}}\n\
         spec:\n{fields}  template:\n    spec:\n{pods}"
    )
}

pub fn group(object: &Value, at: usize) -> &Value {
    &object["spec"]["taskGroups"][at]
}
