//! LatticeJobs. Lattice compiles their task groups into a Job of Volcano.
//!
//! Sources of the fields: the CRD `lattice.dev/v1alpha1`, and the workloads that all of Lattice's
//! kinds share.

mod dependencies;
mod task;
mod volumes;

use serde_json::json;
use trellis_api::job::{Framework, Role};

use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::pod::{PodHints, ValueWithPath, command_scan::ProvidedVariables};
use crate::volcano::lifecycle_policies::LifecyclePolicies;

/// Converts a LatticeJob.
pub(crate) fn convert_job(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let log = root.log();
    let Some(metadata) = metadata::read_metadata(root, true) else {
        return Vec::new();
    };
    let Some(spec) = root.object("spec") else {
        log.add_problem("spec", "is required: add the job's tasks");
        return Vec::new();
    };
    let names = spec
        .object("tasks")
        .map(|tasks| tasks.keys())
        .unwrap_or_default();
    if names.is_empty() && !log.has_problems() {
        let message = "is required: add a task; write the containers of a LatticeJob in the earlier form as one task";
        log.add_problem("spec.tasks", message);
    }
    let training = spec.object("training");
    let framework = training.as_ref().map_or(Framework::None, read_framework);
    let mut draft = JobDraft::new(metadata, framework);
    let coordinator = training.as_ref().map(|training| {
        let named = training.text("coordinatorTask");
        named.unwrap_or_else(|| "master".to_owned())
    });
    if let Some(name) = coordinator.as_ref().filter(|name| !names.contains(name)) {
        let message = format!(
            "names task {name:?}, which does not exist: name one of {}",
            names.join(", ")
        );
        log.add_problem("spec.training.coordinatorTask", message);
    }
    read_spec(&spec, &mut draft);
    let nccl = training
        .as_ref()
        .map(task::nccl_variables)
        .unwrap_or_default();
    let mut policies = LifecyclePolicies::read(&spec, None);
    let hints = PodHints {
        context,
        framework,
        main: "main",
        own_ports: &[],
        index_variables: &[],
        provided_variables: ProvidedVariables::default(),
    };
    let defaults = spec.object("defaults");
    let tasks = spec.object("tasks");
    for name in &names {
        let Some(task) = tasks.as_ref().and_then(|tasks| tasks.object(name)) else {
            let message =
                "must be a mapping, not nothing: write {} for a task that has only the defaults";
            log.add_problem(&format!("spec.tasks.{name}"), message);
            continue;
        };
        let task = task.with_fallback(defaults.clone());
        let Some(mut pods) = task::read_task(&task, &hints, &mut draft) else {
            continue;
        };
        pods.group.name.clone_from(name);
        pods.group.replicas = task.integer("replicas").filter(|count| *count != 1);
        let leads = coordinator.as_ref() == Some(name);
        pods.group.role = leads.then_some(Role::Coordinator);
        for variable in &nccl {
            if !pods.group.env.iter().any(|own| own.name == variable.name) {
                pods.group.env.push(variable.clone());
            }
        }
        pods.restart_policy = read_restart_policy(&task);
        policies.add(LifecyclePolicies::read(&task, Some(&pods.group)), log);
        draft.pods.push(pods);
    }
    note_gang(&spec, &draft);
    policies.apply_to_draft(&mut draft, log);
    draft.finish(log)
}

fn read_framework(training: &Fields<'_>) -> Framework {
    match training.text("framework").as_deref() {
        // PyTorch is the default.
        None | Some("PyTorch") => Framework::PyTorch,
        Some("DeepSpeed") => Framework::DeepSpeed,
        Some("Jax") => Framework::JAX,
        Some(_) => {
            training.note_at(
                "framework",
                "is unknown",
                "choose spec.framework (docs/frameworks)",
            );
            Framework::None
        }
    }
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
    if let Some(limit) = spec.integer("maxRetry") {
        draft.restart_mut().limit = Some(limit);
    }
    spec.note_at(
        "schedule",
        "runs the job repeatedly, and a TrainingJob runs once",
        "let a CronJob apply it with a new name each time",
    );
    for key in [
        "concurrencyPolicy",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "startingDeadlineSeconds",
    ] {
        spec.note_at(key, "applies only with schedule", "leave it out");
    }
    spec.ignore_if("suspend", &json!(false));
    spec.note_at(
        "suspend",
        "stops the schedule from creating jobs, and does not affect an existing job",
        "use spec.suspend to stop a TrainingJob",
    );
    spec.note_at(
        "topology",
        "names tiers of HyperNodes, and in Trellis levels are node labels",
        "create a Topology, and write topology: {required: LEVEL} (docs/topology.md)",
    );
    spec.note_at(
        "observability",
        "lets Lattice read metrics of the pods",
        "annotate the pods for your monitoring in spec.podMetadata",
    );
}

fn read_restart_policy(task: &Fields<'_>) -> Option<ValueWithPath<String>> {
    let words = ["Always", "OnFailure", "Never"];
    let value = task.one_of("restartPolicy", &words);
    let path = task.field_path("restartPolicy");
    task.ignore_if("restartPolicy", &json!("Never"));
    task.note_at(
        "restartPolicy",
        "lets the kubelet restart a container by itself, and in Trellis the kubelet never does",
        "use spec.restart to choose what a failure restarts",
    );
    value.map(|value| ValueWithPath { value, path })
}

fn note_gang(spec: &Fields<'_>, draft: &JobDraft) {
    let all: i64 = draft
        .pods
        .iter()
        .map(|p| i64::from(p.group.replicas()))
        .sum();
    if !spec.log().has_problems() {
        spec.ignore_if("minAvailable", &json!(all));
        spec.note_at(
            "minAvailable",
            &format!(
                "does not state which of the {all} pods may be missing, so all of them are in the gang"
            ),
            "set minReplicas on a task group that can run with fewer pods (docs/elastic.md)",
        );
    }
}
