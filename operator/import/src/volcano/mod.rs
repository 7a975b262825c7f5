//! Volcano: its Job, its Queue and its HyperNode.
//!
//! Sources of the fields: volcano-sh/apis, `batch/v1alpha1/job.go` and
//! `scheduling/v1beta1/types.go`; for plugins, `pkg/controllers/job/plugins` of volcano-sh/volcano.

mod hyper_node;
pub(crate) mod lifecycle_policies;
mod network_topology;
mod partition;
mod plugins;
mod queue;
mod quota;
mod restart_rules;
mod success;
mod task;

use serde_json::{Value, json};
use trellis_api::job::{Framework, Mount, SuccessPolicy};

use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::pod::volumes::trim_slashes;
use lifecycle_policies::LifecyclePolicies;
use network_topology::NetworkTopology;
use plugins::VolcanoPlugins;

pub(crate) use hyper_node::convert_hyper_node;
pub(crate) use queue::convert_queue;
pub(crate) use quota::insert_queue;

/// Converts a Job.
pub(crate) fn convert_job(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, true) else {
        return Vec::new();
    };
    let Some(spec) = root.object("spec") else {
        let log = root.log();
        log.add_problem("spec", "is required: add the job's tasks");
        return Vec::new();
    };
    let tasks = task::with_pods(spec.objects("tasks"));
    if tasks.is_empty() {
        let log = root.log();
        log.add_problem("spec.tasks", "is required: add a task with pods");
        return Vec::new();
    }
    let plugins = VolcanoPlugins::read(&spec, &task::task_names(&tasks));
    let mut draft = JobDraft::new(metadata, plugins.framework);
    read_spec(&spec, &mut draft);
    let topology = NetworkTopology::read(&spec, context);
    draft.spec.topology = topology.as_ref().map(NetworkTopology::to_closeness);
    let mounts = read_volumes(&spec, &tasks);
    let mut policies = LifecyclePolicies::read(&spec, None);
    let hosts = task::host_variables(&tasks, draft.metadata.name.as_deref().unwrap_or_default());
    for (at, task) in tasks.iter().enumerate() {
        let hints = plugins.pod_hints(context, &hosts);
        let Some(mut pods) = task::read_task(task, at, &plugins, &hints) else {
            continue;
        };
        partition::read_partitions(task, topology.as_ref(), context, &mut pods);
        pods.group.mounts.extend(mounts.iter().cloned());
        policies.add(LifecyclePolicies::read(task, Some(&pods.group)), root.log());
        draft.pods.push(pods);
    }
    task::read_gang_size(&spec, &tasks, &mut draft);
    task::read_order(&tasks, &mut draft);
    policies.apply_to_draft(&mut draft, root.log());
    draft.finish(root.log())
}

fn read_spec(spec: &Fields<'_>, draft: &mut JobDraft) {
    spec.ignore_if("schedulerName", &json!("volcano"));
    spec.note_at(
        "schedulerName",
        "is another scheduler, and Trellis places its pods itself",
        "leave it out",
    );
    draft.spec.queue_name = spec.text("queue");
    draft.spec.priority_class_name = spec.text("priorityClassName");
    // Go writes 0 for an unset number.
    if let Some(limit) = spec.integer("maxRetry").filter(|limit| *limit != 0) {
        draft.restart_mut().limit = Some(limit);
    }
    draft.set_ttl(spec.integer("ttlSecondsAfterFinished"));
    match spec.get("minSuccess") {
        Some(least) if *least.value() == json!(1) => {
            least.mark_read();
            draft.set_success(SuccessPolicy::Any);
        }
        Some(least) => least.note(
            "has no equivalent: a TrainingJob is complete when all pods, any pod, or rank 0 has succeeded",
            "choose one of these in spec.success.policy",
        ),
        None => {}
    }
    spec.note_at(
        "runningEstimate",
        "is an estimate, and backfill uses the maximum or the past runtime of jobs",
        "set deadlines.activeSeconds, or defaultRuntimeSeconds of the queue",
    );
}

/// Reads the volumes of the whole job. In Volcano, every container mounts them.
fn read_volumes(spec: &Fields<'_>, tasks: &[Fields<'_>]) -> Vec<Mount> {
    let mut mounts = Vec::new();
    let has_others = |task: &Fields<'_>| {
        let containers = task.value().pointer("/template/spec/containers");
        let containers = containers.and_then(Value::as_array);
        containers.is_some_and(|containers| containers.len() > 1)
    };
    let has_others = tasks.iter().any(has_others);
    for volume in spec.objects("volumes") {
        volume.note_at(
            "volumeClaim",
            "would create a PersistentVolumeClaim, and Trellis creates none",
            "create it, and name it in a mount of each task group",
        );
        let Some(claim) = volume.text("volumeClaimName") else {
            volume.note_at(
                "mountPath",
                "has no volume, because no claim is named",
                "name a claim in a mount of each task group",
            );
            continue;
        };
        let Some(path) = volume.text("mountPath") else {
            let message = "is required: write the path of the mount";
            volume
                .log()
                .add_problem(&volume.field_path("mountPath"), message);
            continue;
        };
        if has_others {
            volume.log().note(
                volume.path(),
                None,
                "is mounted by all containers of a pod in Volcano, and only by the main one in Trellis",
                "add the volume and its mounts to podTemplate for the other containers",
            );
        }
        mounts.push(Mount {
            claim_name: Some(claim),
            path: trim_slashes(&path).to_owned(),
            ..Mount::default()
        });
    }
    mounts
}

/// Returns true for frameworks whose groups may start with fewer pods (docs/elastic.md).
fn can_be_elastic(framework: Option<Framework>) -> bool {
    framework.unwrap_or_default().spec().is_elastic
}
