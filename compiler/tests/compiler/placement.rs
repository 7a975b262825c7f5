//! Placement fields of a job, and tolerations from its flavors.

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::serde_json::{json, to_value};
use trellis_api::names;
use trellis_compiler::PodPlacement;

use super::support::{PLACEMENT, compile_job, compile_one_group, job, spec};

#[test]
fn pod_has_flavor_tolerations_after_its_own_without_duplicates() {
    let group = "gpus: 1, tolerations: [{key: dedicated, operator: Exists}]";
    let job = compile_one_group("None", group);
    let brought = [("dedicated", None), ("spot", Some(60))].map(|(key, seconds)| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        toleration_seconds: seconds,
        ..Toleration::default()
    });
    let at = PodPlacement {
        tolerations: &brought,
        ..PLACEMENT
    };
    let pod = job.groups()[0].pod(0, &at);
    let all = spec(&pod).tolerations.clone().unwrap();
    let keys: Vec<_> = all.iter().filter_map(|t| t.key.as_deref()).collect();
    assert_eq!(
        keys,
        [names::DEDICATED_NODE, "nvidia.com/gpu", "dedicated", "spot"]
    );
    assert_eq!(all[3].toleration_seconds, Some(60));
}

#[test]
fn pod_group_has_topology_and_preemptibility_of_the_job() {
    let group = "{name: w, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}, \
                 topology: {preferred: rack}}";
    let said = compile_job(job(&format!(
        "preemptibility: ProtectedWithinQuota\nminRuntimeSeconds: 60\ntopology: {{required: block}}\ntaskGroups: [{group}]"
    )));
    assert_eq!(
        to_value(&said.pod_group().spec).unwrap(),
        json!({
            "minMember": 1, "queueName": "default", "priority": 0,
            "preemptibility": "ProtectedWithinQuota", "minRuntimeSeconds": 60, "topology": {"required": "block"},
            "groups": [{"name": "w", "count": 1, "resources": {"cpu": "1", "memory": "1Gi"},
                "topology": {"preferred": "rack"}}],
        })
    );
    let silent = compile_job(job(
        "taskGroups: [{name: w, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]",
    ));
    assert_eq!(
        to_value(&silent.pod_group().spec).unwrap(),
        json!({
            "minMember": 1, "queueName": "default", "priority": 0,
            "groups": [{"name": "w", "count": 1, "resources": {"cpu": "1", "memory": "1Gi"}}],
        })
    );
}
