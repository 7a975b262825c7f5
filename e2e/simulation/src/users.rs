//! The acts of users.

use serde_json::{Value, json};
use trellis_api::names;

use crate::access::{Access, Target};
use crate::cluster::{self, JOB_NAMESPACE};
use crate::job_controller::first_placeholder;
use crate::kubelet::ended_status;
use crate::script::{Act, JobScript, Priority, Script};

/// The user of all jobs.
pub(crate) const USER: &str = "alice";

/// The group of the kinds of Trellis.
const TRELLIS: &str = "apis/trellis.dev/v1alpha1";

fn job_target(name: &str) -> Target {
    Target::namespaced(TRELLIS, "trainingjobs", JOB_NAMESPACE, name)
}

/// Submits a job. It may exist already.
pub(crate) fn submit(job: &JobScript, access: &mut Access<'_>) {
    let _ = access.create(&job_object(job));
}

fn job_object(job: &JobScript) -> Value {
    let mut object = json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": job.name, "namespace": JOB_NAMESPACE},
        "spec": {
            "framework": "PyTorch",
            "queueName": cluster::queue_name(job.queue),
            "restart": {"backoffSeconds": 1, "maxBackoffSeconds": 4},
            "checkpoint": {"gracePeriodSeconds": job.grace_seconds},
            "minRuntimeSeconds": job.min_runtime_seconds,
            "taskGroups": [{
                "name": "worker",
                "replicas": job.replicas,
                "gpus": job.gpus,
                "image": "registry.example/train:1.0",
                "command": ["torchrun", "train.py"],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            }],
        },
    });
    if let Some(elastic) = &job.elastic {
        let group = &mut object["spec"]["taskGroups"][0];
        group["minReplicas"] = json!(elastic.min_replicas);
        if let Some(pods) = elastic.slice_pods {
            group["topology"] = json!({"slices": [{"level": cluster::RACK, "pods": pods}]});
        }
    }
    if job.priority == Priority::High {
        object["spec"]["priorityClassName"] = json!(cluster::HIGH_PRIORITY);
    }
    object
}

/// Does what a script says.
pub(crate) fn act(act: &Act, script: &Script, access: &mut Access<'_>) {
    match act {
        Act::Delete(job) => access.delete(&job_target(job), None),
        Act::Suspend(job) => set_suspended(job, true, access),
        Act::Resume(job) => set_suspended(job, false, access),
        Act::Submit(name) => {
            if let Some(job) = script.jobs.iter().find(|job| job.name == *name) {
                submit(job, access);
            }
        }
        Act::DeletePod(job) => {
            if let Some(pod) = first_pod(job, access) {
                access.delete(
                    &Target::namespaced("api/v1", "pods", JOB_NAMESPACE, &pod),
                    None,
                );
            }
        }
        Act::KillProcess(job, number) => kill_process(job, *number, access),
        Act::SetReplicas(job, replicas) => set_replicas(job, *replicas, access),
        Act::DeletePlaceholder => {
            if let Some(pod) = first_placeholder(access) {
                access.delete(&pod, None);
            }
        }
        Act::DeletePodGroup(job) => {
            access.delete(
                &Target::namespaced(TRELLIS, "podgroups", JOB_NAMESPACE, job),
                None,
            );
        }
        Act::Cordon(node) => set_unschedulable(*node, true, access),
        Act::Uncordon(node) => set_unschedulable(*node, false, access),
        Act::Quarantine(node) => set_quarantined(*node, true, access),
        Act::Release(node) => set_quarantined(*node, false, access),
        Act::AddQueue => {
            let _ = access.create(&cluster::unused_queue());
        }
        Act::SetQuota(queue, gpus) => {
            if script
                .queues
                .get(*queue)
                .is_some_and(|queue| queue.gpus.is_some())
            {
                let name = cluster::queue_name(*queue);
                let target = Target::cluster_wide(TRELLIS, "trainingqueues", &name);
                let patch = json!({"spec": {"resourceGroups": cluster::quota(*gpus)}});
                access.patch(&target, &patch).expect("the queue exists");
            }
        }
    }
}

/// Kills the process of a pod. Its kubelet reports that at once.
fn kill_process(job: &str, number: usize, access: &mut Access<'_>) {
    let pods = access.list(&cluster::PODS).filter(|pod| {
        pod["metadata"]["labels"][names::JOB] == job && pod["status"]["phase"] == "Running"
    });
    let pods: Vec<_> = pods.cloned().collect();
    if let Some(pod) = number.checked_rem(pods.len()).map(|number| &pods[number]) {
        let target = Target::namespaced("api/v1", "pods", JOB_NAMESPACE, pod.name());
        access.patch_status(&target, &ended_status(pod.value(), 1, access.now()));
    }
}

/// Sets the number of pods. The API server may refuse it.
fn set_replicas(job: &str, replicas: u32, access: &mut Access<'_>) {
    if let Some(mut object) = access.get(&job_target(job)) {
        object["spec"]["taskGroups"][0]["replicas"] = json!(replicas);
        let patch = json!({"spec": {"taskGroups": object["spec"]["taskGroups"]}});
        let _ = access.patch(&job_target(job), &patch);
    }
}

fn set_suspended(job: &str, is_suspended: bool, access: &mut Access<'_>) {
    let patch = json!({"spec": {"suspend": is_suspended}});
    let _ = access.patch(&job_target(job), &patch);
}

fn set_unschedulable(node: usize, is_unschedulable: bool, access: &mut Access<'_>) {
    let target = Target::cluster_wide("api/v1", "nodes", &cluster::node_name(node));
    let patch = json!({"spec": {"unschedulable": is_unschedulable}});
    let _ = access.patch(&target, &patch);
}

/// Writes the label of a tool that watches the health of nodes.
fn set_quarantined(node: usize, is_quarantined: bool, access: &mut Access<'_>) {
    let target = Target::cluster_wide("api/v1", "nodes", &cluster::node_name(node));
    let state = is_quarantined.then_some("quarantined");
    let patch = json!({"metadata": {"labels": {cluster::HEALTH_LABEL: state}}});
    access.patch(&target, &patch).expect("the node exists");
}

/// Returns the name of a pod of the job that is not being deleted.
fn first_pod(job: &str, access: &Access<'_>) -> Option<String> {
    let mut pods = access.list(&cluster::PODS);
    let pod =
        pods.find(|pod| pod["metadata"]["labels"][names::JOB] == job && !pod.is_deleting())?;
    Some(pod.name().to_owned())
}
