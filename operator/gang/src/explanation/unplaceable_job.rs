//! Jobs that can never be placed, even with enough free capacity.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_compiler::{CompiledJob, PodPlacement};

use crate::JobHold;
use crate::admitted_pod::AdmittedPod;
use crate::requirements::unsupported_requirement::container_ports;

/// Refuses a job whose pods cannot run even in an empty cluster. Returns None for any other job.
pub(crate) fn refuse_unplaceable_job(job: &CompiledJob) -> Option<JobHold> {
    let config_map_problem = job.config_map_problem();
    config_map_problem
        .map(|message| JobHold::refused(Reason::InvalidSpec, message))
        .or_else(|| refuse_node_port(job))
        .or_else(|| refuse_claim_name_conflict(job))
}

/// Refuses a job in which two pods have ephemeral claims of the same name. A claim is named after
/// its pod and volume (`ephemeral.VolumeClaimName`), so pod `a-0` with volume `b-0-c` conflicts
/// with pod `a-0-b-0` with volume `c`.
fn refuse_claim_name_conflict(job: &CompiledJob) -> Option<JobHold> {
    let mut names = BTreeSet::new();
    let groups = job
        .groups()
        .iter()
        .map(|group| (group, AdmittedPod::from_group(group)));
    let with_claims = groups.filter(|(_, pod)| !pod.ephemeral_claims.is_empty());
    with_claims.flat_map(|(group, pod)| {
        let pods = (0..group.replicas()).map(|index| group.pod_name(index));
        let names = pods.flat_map(|pod_name| {
            let volumes: Vec<_> = pod.ephemeral_claims.keys().cloned().collect();
            volumes.into_iter().map(move |volume| format!("{pod_name}-{volume}"))
        });
        names.collect::<Vec<_>>()
    })
    .find(|claim| !names.insert(claim.clone()))
    .map(|claim| {
        let message = format!("spec.taskGroups: two pods would have the PersistentVolumeClaim {claim:?} for an ephemeral volume: rename a volume or a group");
        JobHold::refused(Reason::InvalidSpec, message)
    })
}

/// Refuses a job whose pods would take ports of their nodes. With hostNetwork, the API server makes
/// each container port a port of the node (`SetDefaults_Pod`).
fn refuse_node_port(job: &CompiledJob) -> Option<JobHold> {
    job.groups().iter().find_map(|group| {
        let spec = group.pod(0, &PodPlacement::UNPLACED).spec?;
        let port = container_ports(&spec).next().filter(|_| spec.host_network == Some(true))?;
        let message = format!(
            "pods of the task group {:?} have hostNetwork, so that their port {} is one of the node's, which Trellis does not count: two pods could be placed where one port is. Leave hostNetwork out of podTemplate and of the RuntimeProfile, or run without ports: framework None, which needs none, and no ports of the group or its template",
            group.name(),
            port.container_port
        );
        Some(JobHold::refused(Reason::ConstraintNotSupported, message))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    #[test]
    fn job_with_host_network_is_refused_if_its_pods_have_ports() {
        let host_network = json!({"hostNetwork": true});
        let sidecar = json!([{"name": "s", "image": "i", "restartPolicy": "Always", "ports": [{"containerPort": 9100}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]);
        let with_sidecar = json!({"hostNetwork": true, "initContainers": sidecar});
        for (framework, template, group, port) in [
            ("PyTorch", &host_network, json!({}), Some("29500")),
            (
                "None",
                &host_network,
                json!({"ports": [{"name": "a", "port": 8080}]}),
                Some("8080"),
            ),
            ("None", &with_sidecar, json!({}), Some("9100")),
            ("None", &host_network, json!({}), None),
            ("PyTorch", &json!({"hostNetwork": false}), json!({}), None),
            ("PyTorch", &json!({}), json!({}), None),
        ] {
            let mut spec = fixtures::spec_with(json!({"framework": framework}));
            let group_fields = spec["taskGroups"][0].as_object_mut().unwrap();
            group_fields.insert("podTemplate".to_owned(), json!({"spec": template}));
            group_fields.extend(group.as_object().unwrap().clone());
            let hold = refuse_unplaceable_job(&fixtures::compile_job(spec.clone()));
            assert_eq!(hold.is_some(), port.is_some(), "{spec}: {hold:?}");
            if let (Some(hold), Some(port)) = (hold, port) {
                assert_eq!(hold.reason, Reason::ConstraintNotSupported);
                let words = format!("\"worker\" have hostNetwork, so that their port {port} ");
                assert!(hold.message.contains(&words), "{}", hold.message);
            }
        }
    }

    #[test]
    fn job_is_refused_when_its_hostfile_exceeds_a_config_map() {
        let hold_of_size = |replicas: u32| {
            let group = json!({"name": "w", "replicas": replicas, "image": "i",
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
            let mut launcher = group.clone();
            launcher["name"] = json!("l");
            launcher["role"] = json!("Launcher");
            launcher["replicas"] = json!(1);
            let spec = json!({"framework": "MPI", "taskGroups": [launcher, group]});
            let job = fixtures::compile_job_as(&"j".repeat(55), &"n".repeat(63), spec);
            refuse_unplaceable_job(&job).map(|hold| (hold.reason, hold.message))
        };
        assert_eq!(hold_of_size(2000), None);
        let (reason, message) = hold_of_size(4095).unwrap();
        assert_eq!(reason, Reason::InvalidSpec);
        assert!(message.starts_with("spec.taskGroups: "), "{message}");
    }
}
