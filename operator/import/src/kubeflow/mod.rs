//! Kubeflow's PyTorchJob.
//!
//! Source of the fields: kubeflow/training-operator, `pkg/apis/kubeflow.org/v1`. Source of the rule
//! which pods complete the job: `pkg/controller.v1/pytorch/pytorchjob_controller.go`.

mod elastic;
mod restart;

use serde_json::{Value, json};
use trellis_api::job::{Framework, PodCleanup, Role, SuccessPolicy};

use crate::context::Context;
use crate::draft::Draft;
use crate::fields::Fields;
use crate::kueue;
use crate::metadata;
use crate::object::Object;
use crate::pod::words::Provided;
use crate::pod::{self, Hints, Said};

/// Replica types in the order of their ranks, the names of their groups, and roles.
const TYPES: [(&str, &str, Option<Role>); 2] = [
    ("Master", "master", Some(Role::Coordinator)),
    ("Worker", "worker", None),
];

/// Converts a PyTorchJob.
pub(crate) fn job(root: &Fields<'_>, context: &Context) -> Vec<Object> {
    let log = root.log();
    let mut draft = Draft::new(Default::default(), Framework::PyTorch);
    let is_queued = kueue::labels(root, context, &mut draft);
    let Some(metadata) = metadata::read(root, true) else {
        return Vec::new();
    };
    draft.metadata = metadata;
    let spec = root.object("spec");
    let Some(replicas) = spec
        .as_ref()
        .and_then(|spec| spec.object("pytorchReplicaSpecs"))
    else {
        log.wrong(
            "spec.pytorchReplicaSpecs",
            "is required: add Master, Worker or both",
        );
        return Vec::new();
    };
    let hints = Hints {
        options: &context.options,
        framework: Framework::PyTorch,
        main: "pytorch",
        own_ports: &["pytorchjob-port"],
        index: &[],
        provided: Provided::default(),
    };
    let mut policies = Vec::new();
    for (kind, name, role) in TYPES {
        let Some(of_type) = replicas.object(kind) else {
            continue;
        };
        if of_type.value().get("replicas") == Some(&json!(0)) {
            of_type.note("has no pods, and is no task group here", "leave it out");
            continue;
        }
        let Some(mut pods) = pod::read(&of_type, "template", &hints) else {
            continue;
        };
        // The restart policy of the replica spec replaces the template's.
        pods.restart_policy = None;
        pods.group.name = name.to_owned();
        pods.group.role = role;
        pods.group.replicas = of_type.integer("replicas").filter(|count| *count != 1);
        policies.push(restart::Policy::read(&of_type, name));
        draft.pods.push(pods);
    }
    if draft.pods.is_empty() && !log.is_wrong() {
        log.wrong(
            "spec.pytorchReplicaSpecs",
            "has no pods: add Master, Worker or both",
        );
    }
    let Some(spec) = spec else { return Vec::new() };
    let has_master = draft.pods.iter().any(|pods| pods.group.role().leads());
    elastic::read(&spec, &mut draft);
    if let Some(policy) = spec.object("runPolicy") {
        run_policy(&policy, is_queued, &mut draft);
    }
    restart::settle(&policies, &mut draft);
    processes(&spec, &draft);
    if has_master {
        draft.success(SuccessPolicy::Leader);
    } else if spec.at("elasticPolicy").is_some() {
        draft.success(SuccessPolicy::Any);
    }
    draft.finish(log)
}

fn run_policy(policy: &Fields<'_>, is_queued: bool, draft: &mut Draft) {
    let clean = policy.one_of("cleanPodPolicy", &["All", "Running", "None"]);
    match clean.as_deref() {
        Some("All") => {
            draft.cleanup().pods_on_success = Some(PodCleanup::Delete);
            draft.cleanup().pods_on_failure = Some(PodCleanup::Delete);
        }
        Some("None") => policy.note_at(
            "cleanPodPolicy",
            "lets pods run on when the job has ended, and here those that still run are stopped",
            "pods that have ended stay until cleanup.childrenTTLSeconds",
        ),
        _ => {}
    }
    draft.ttl(policy.integer("ttlSecondsAfterFinished"));
    if let Some(value) = policy.integer("activeDeadlineSeconds") {
        let path = policy.inside("activeDeadlineSeconds");
        draft.may_run(Said { value, path }, policy.log());
    }
    if let Some(limit) = policy.integer("backoffLimit") {
        restart::limit(draft, policy, "backoffLimit", limit);
    }
    // Kueue suspends jobs that it has not admitted: a suspended job is pending, not stopped.
    if policy.boolean("suspend") == Some(true) && !is_queued {
        draft.spec.suspend = Some(true);
    }
    policy.quiet_if("managedBy", &json!("kubeflow.org/training-operator"));
    policy.note_at(
        "managedBy",
        "leaves the job to somebody else",
        "leave it out",
    );
    if let Some(scheduling) = policy.object("schedulingPolicy") {
        scheduling_policy(&scheduling, draft);
    }
}

fn scheduling_policy(policy: &Fields<'_>, draft: &mut Draft) {
    let queue = policy.text("queue");
    match &draft.spec.queue_name {
        None => draft.spec.queue_name = queue,
        Some(own) if queue.as_ref().is_some_and(|queue| queue != own) => policy.note_at(
            "queue",
            "is another than Kueue's, which the label names",
            "write the one that is meant into spec.queueName",
        ),
        Some(_) => {}
    }
    let class = policy.text("priorityClass");
    match &draft.spec.priority_class_name {
        None => draft.spec.priority_class_name = class,
        Some(own) if class.as_ref().is_some_and(|class| class != own) => policy.note_at(
            "priorityClass",
            "is another than the one that Kueue goes by",
            "write the one that is meant into spec.priorityClassName",
        ),
        Some(_) => {}
    }
    let gang: i64 = draft
        .pods
        .iter()
        .map(|p| i64::from(p.group.gang_size()))
        .sum();
    policy.quiet_if("minAvailable", &json!(gang));
    policy.note_at(
        "minAvailable",
        &format!("is not the gang, which is {gang} pods here"),
        "write minReplicas for a task group that works with fewer (docs/elastic.md)",
    );
    policy.note_at(
        "minResources",
        "is what the gang asks for, which is counted from its pods here",
        "leave it out",
    );
    policy.note_at(
        "scheduleTimeoutSeconds",
        "is how long pods wait for each other on their nodes, and here no pod is made before all have a place",
        "deadlines.queueSeconds bounds the wait in the queue",
    );
}

/// Notes on the number of processes in a pod.
fn processes(spec: &Fields<'_>, draft: &Draft) {
    let elastic = spec.object("elasticPolicy");
    let old = elastic
        .as_ref()
        .and_then(|elastic| elastic.at("nProcPerNode"));
    let given = spec.at("nprocPerNode").into_iter().chain(old);
    let gpus = draft
        .pods
        .iter()
        .map(|pods| i64::from(pods.group.gpus()).max(1));
    let gpus: Vec<i64> = gpus.collect();
    for given in given {
        let count = match given.value() {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        let word = given.value().as_str();
        let same = match (count, word) {
            (Some(count), _) => gpus.iter().all(|gpus| *gpus == count),
            (None, word) => matches!(word, Some("auto" | "gpu")),
        };
        if same {
            given.take();
        } else {
            given.note(
                "is not the number of GPUs of a pod, which Trellis tells torchrun to start so many processes by",
                "write --nproc-per-node into the command",
            );
        }
    }
}
