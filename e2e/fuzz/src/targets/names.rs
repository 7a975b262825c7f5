//! Names of the objects of a job.

use std::collections::BTreeMap;

use trellis_api::{TrainingJob, ValidatedJob, names};

use crate::Target;

/// The target. An accepted job has different names for its objects of one kind, and each is a name
/// that Kubernetes accepts. The input is a word for the job, then one for each group.
pub const TARGET: Target = Target {
    check,
    words: &[
        "a", "a-1", "1", "a.b", "hosts", "ssh", "worker", "worker-0", "A", "_",
    ],
    inputs_per_case: 128,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let mut words = text.split_whitespace();
    let Some(job) = words.next() else {
        return;
    };
    let groups: Vec<&str> = words.collect();
    let task_groups: Vec<_> = groups
        .iter()
        .map(|name| {
            serde_json::json!({"name": name, "image": "x", "replicas": 12,
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}})
        })
        .collect();
    let object: TrainingJob = serde_json::from_value(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": job, "uid": "5f2c9a1e-0000-4000-8000-000000000001"},
        "spec": {"taskGroups": task_groups},
    }))
    .expect("a job has these fields");
    if ValidatedJob::try_from(object).is_err() {
        return;
    }
    let mut pods = BTreeMap::new();
    for group in &groups {
        for index in 0..12 {
            let name = names::pod_name(job, group, index);
            check_label(&name);
            if let Some(other) = pods.insert(name.clone(), (group, index)) {
                panic!("{name:?} is a pod of {group:?} and {other:?}");
            }
        }
        check_label(&names::leader_service_name(job, group));
        assert_ne!(names::leader_service_name(job, group), job);
    }
    let config_map = names::hosts_config_map_name(job);
    assert_eq!(names::job_for_hosts_config_map(&config_map), Some(job));
}

/// A DNS label, as pods and Services need it.
fn check_label(name: &str) {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = name.len() <= 63
        && name.bytes().all(is_inner)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-');
    assert!(is_label, "{name:?} is no DNS label");
}
