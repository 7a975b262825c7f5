//! Kubeflow's PyTorchJob.
//!
//! Source of the fields: kubeflow/training-operator, `pkg/apis/kubeflow.org/v1`. Source of the rule
//! that determines which pods complete the job:
//! `pkg/controller.v1/pytorch/pytorchjob_controller.go`.

mod elastic_policy;
mod restart_policy;

use serde_json::{Value, json};
use trellis_api::job::{Framework, PodCleanup, Role, SuccessPolicy};

use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::pod::command_scan::ProvidedVariables;
use crate::pod::{self, PodHints, ValueWithPath};
use crate::{kai, kueue};

/// Replica types in the order of their ranks, the names of their groups, and roles.
const REPLICA_TYPES: [(&str, &str, Option<Role>); 2] = [
    ("Master", "master", Some(Role::Coordinator)),
    ("Worker", "worker", None),
];

/// Converts a PyTorchJob.
pub(crate) fn convert_job(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let log = root.log();
    let mut draft = JobDraft::new(Default::default(), Framework::PyTorch);
    let is_queued = kueue::read_labels(root, context, &mut draft);
    kai::read_job(root, context, &mut draft);
    let Some(metadata) = metadata::read_metadata(root, true) else {
        return Vec::new();
    };
    draft.metadata = metadata;
    let spec = root.object("spec");
    let Some(replicas) = spec
        .as_ref()
        .and_then(|spec| spec.object("pytorchReplicaSpecs"))
    else {
        log.add_problem(
            "spec.pytorchReplicaSpecs",
            "is required: add Master, Worker or both",
        );
        return Vec::new();
    };
    let hints = PodHints {
        context,
        framework: Framework::PyTorch,
        main: "pytorch",
        own_ports: &["pytorchjob-port"],
        index_variables: &[],
        provided_variables: ProvidedVariables::default(),
    };
    let mut policies = Vec::new();
    for (kind, name, role) in REPLICA_TYPES {
        let Some(of_type) = replicas.object(kind) else {
            continue;
        };
        if of_type.value().get("replicas") == Some(&json!(0)) {
            of_type.note("has no pods, so it becomes no task group", "leave it out");
            continue;
        }
        let Some(mut pods) = pod::read_template(&of_type, "template", &hints) else {
            continue;
        };
        // The restart policy of the replica spec replaces the template's.
        pods.restart_policy = None;
        pods.group.name = name.to_owned();
        pods.group.role = role;
        pods.group.replicas = of_type.integer("replicas").filter(|count| *count != 1);
        policies.push(restart_policy::ReplicaRestartPolicy::from_fields(
            &of_type, name,
        ));
        draft.pods.push(pods);
    }
    if draft.pods.is_empty() && !log.has_problems() {
        log.add_problem(
            "spec.pytorchReplicaSpecs",
            "has no pods: add Master, Worker or both",
        );
    }
    let Some(spec) = spec else { return Vec::new() };
    let has_master = draft.pods.iter().any(|pods| pods.group.role().has_rank_0());
    elastic_policy::read_elastic_policy(&spec, &mut draft);
    if let Some(policy) = spec.object("runPolicy") {
        read_run_policy(&policy, is_queued, &mut draft);
    }
    restart_policy::apply_policies(&policies, &mut draft);
    note_processes(&spec, &draft);
    if has_master {
        draft.set_success(SuccessPolicy::Leader);
    } else if spec.get("elasticPolicy").is_some() {
        draft.set_success(SuccessPolicy::Any);
    }
    draft.finish(log)
}

fn read_run_policy(policy: &Fields<'_>, is_queued: bool, draft: &mut JobDraft) {
    let clean = policy.one_of("cleanPodPolicy", &["All", "Running", "None"]);
    match clean.as_deref() {
        Some("All") => {
            draft.cleanup_mut().pods_on_success = Some(PodCleanup::Delete);
            draft.cleanup_mut().pods_on_failure = Some(PodCleanup::Delete);
        }
        Some("None") => policy.note_at(
            "cleanPodPolicy",
            "keeps pods running after the end of the job, and Trellis stops running pods",
            "pods that have ended stay until cleanup.childrenTTLSeconds",
        ),
        _ => {}
    }
    draft.set_ttl(policy.integer("ttlSecondsAfterFinished"));
    if let Some(value) = policy.integer("activeDeadlineSeconds") {
        let path = policy.field_path("activeDeadlineSeconds");
        draft.set_active_deadline(ValueWithPath { value, path }, policy.log());
    }
    if let Some(limit) = policy.integer("backoffLimit") {
        restart_policy::set_restart_limit(draft, policy, "backoffLimit", limit);
    }
    // Kueue suspends jobs that it has not admitted: a suspended job is pending, not stopped.
    if policy.boolean("suspend") == Some(true) && !is_queued {
        draft.spec.suspend = Some(true);
    }
    policy.ignore_if("managedBy", &json!("kubeflow.org/training-operator"));
    policy.note_at(
        "managedBy",
        "leaves the job to another controller",
        "leave it out",
    );
    if let Some(scheduling) = policy.object("schedulingPolicy") {
        read_scheduling_policy(&scheduling, draft);
    }
}

fn read_scheduling_policy(policy: &Fields<'_>, draft: &mut JobDraft) {
    let queue = policy.text("queue");
    match &draft.spec.queue_name {
        None => draft.spec.queue_name = queue,
        Some(own) if queue.as_ref().is_some_and(|queue| queue != own) => policy.note_at(
            "queue",
            "differs from the queue in the job's label",
            "write the queue that you want into spec.queueName",
        ),
        Some(_) => {}
    }
    let class = policy.text("priorityClass");
    match &draft.spec.priority_class_name {
        None => draft.spec.priority_class_name = class,
        Some(own) if class.as_ref().is_some_and(|class| class != own) => policy.note_at(
            "priorityClass",
            "differs from the class in the job's label",
            "write the class that you want into spec.priorityClassName",
        ),
        Some(_) => {}
    }
    let gang: i64 = draft
        .pods
        .iter()
        .map(|p| i64::from(p.group.gang_size()))
        .sum();
    policy.ignore_if("minAvailable", &json!(gang));
    policy.note_at(
        "minAvailable",
        &format!("is not the size of the gang, which has {gang} pods"),
        "set minReplicas on a task group that can run with fewer pods (docs/elastic.md)",
    );
    policy.note_at(
        "minResources",
        "is the gang's request, which Trellis computes from the pods",
        "leave it out",
    );
    policy.note_at(
        "scheduleTimeoutSeconds",
        "limits how long pods wait for each other on their nodes, and Trellis creates no pod before the whole gang is placed",
        "set deadlines.queueSeconds to limit the time in the queue",
    );
}

/// Adds notes about the number of processes in a pod.
fn note_processes(spec: &Fields<'_>, draft: &JobDraft) {
    let elastic = spec.object("elasticPolicy");
    let old = elastic
        .as_ref()
        .and_then(|elastic| elastic.get("nProcPerNode"));
    let fields = spec.get("nprocPerNode").into_iter().chain(old);
    let gpus = draft
        .pods
        .iter()
        .map(|pods| i64::from(pods.group.gpus()).max(1));
    let gpus: Vec<i64> = gpus.collect();
    for field in fields {
        let count = match field.value() {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        let word = field.value().as_str();
        let is_same = match (count, word) {
            (Some(count), _) => gpus.iter().all(|gpus| *gpus == count),
            (None, word) => matches!(word, Some("auto" | "gpu")),
        };
        if is_same {
            field.mark_read();
        } else {
            field.note(
                "is not the number of GPUs of a pod, and Trellis has torchrun start one process for each GPU",
                "write --nproc-per-node into the command",
            );
        }
    }
}
