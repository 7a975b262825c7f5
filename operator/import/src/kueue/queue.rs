//! ClusterQueue, Cohort and LocalQueue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::names::NAMESPACE_NAME;
use trellis_api::queue::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, QueuePreemption, QueueSpec, QueueingStrategy,
    StopPolicy, TrainingQueue,
};

use super::quota;
use crate::context::Context;
use crate::fields::Fields;
use crate::metadata;
use crate::object::Object;

/// Converts a ClusterQueue.
pub(crate) fn cluster_queue(root: &Fields<'_>, context: &Context) -> Vec<Object> {
    let Some(metadata) = metadata::read(root, false) else {
        return Vec::new();
    };
    let name = metadata.name.clone().unwrap_or_default();
    if context.is_cohort(&name) {
        let message = "is the name of a cohort too, which Kueue keeps apart, and both are queues here: rename the ClusterQueue, and clusterQueue of its LocalQueues, or the cohort";
        root.log().wrong("metadata.name", message);
    }
    let mut spec = QueueSpec::default();
    if let Some(fields) = root.object("spec") {
        // v1beta1 calls it cohort.
        for key in ["cohort", "cohortName"] {
            spec.parent_name = spec.parent_name.or_else(|| fields.text(key));
        }
        spec.resource_groups = quota::groups(&fields);
        spec.weight = quota::weight(&fields);
        spec.namespace_selector = selector(&fields);
        let strategy = word::<QueueingStrategy>(&fields, "queueingStrategy");
        spec.queueing_strategy = strategy.filter(|s| *s != QueueingStrategy::BestEffortFifo);
        spec.preemption = preemption(&fields);
        let stop = word::<StopPolicy>(&fields, "stopPolicy");
        spec.stop_policy = stop.filter(|stop| *stop != StopPolicy::None);
        defaults(&fields);
        others(&fields);
    }
    local_queues(root, context, &name, &mut spec);
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![Object::Queue(queue)]
}

/// The namespace selector, if Kubernetes' type holds all of its fields.
fn selector(fields: &Fields<'_>) -> Option<LabelSelector> {
    let written = fields.at("namespaceSelector")?;
    let read: Option<LabelSelector> = serde_json::from_value(written.value().clone()).ok();
    let same = |read: &LabelSelector| {
        serde_json::to_value(read).is_ok_and(|again| again == *written.value())
    };
    match read {
        Some(read) if same(&read) => {
            written.take();
            Some(read)
        }
        _ => {
            let log = fields.log();
            log.wrong(
                written.path(),
                "must be a label selector: write matchLabels and matchExpressions, or {} for all namespaces",
            );
            None
        }
    }
}

/// A word that both have. Another is an error.
fn word<T: DeserializeOwned>(fields: &Fields<'_>, key: &str) -> Option<T> {
    let text = fields.text(key)?;
    let word = serde_json::from_value(json!(text)).ok();
    if word.is_none() {
        let message = format!("is {text:?}, which is no word that is known here: correct it");
        fields.log().wrong(&fields.inside(key), message);
    }
    word
}

fn preemption(fields: &Fields<'_>) -> Option<QueuePreemption> {
    let preemption = fields.object("preemption")?;
    let borrow = preemption.object("borrowWithinCohort").and_then(|borrow| {
        let policy = word::<BorrowWithinCohortPolicy>(&borrow, "policy");
        let most = borrow.small("maxPriorityThreshold");
        let found = BorrowWithinCohort {
            policy,
            max_priority_threshold: most,
        };
        // Never is the default.
        Some(found).filter(|f| f.policy == Some(BorrowWithinCohortPolicy::LowerPriority))
    });
    let found = QueuePreemption {
        within_cluster_queue: word(&preemption, "withinClusterQueue"),
        reclaim_within_cohort: word(&preemption, "reclaimWithinCohort"),
        borrow_within_cohort: borrow,
    };
    Some(found).filter(|found| *found != QueuePreemption::default())
}

/// Defaults that the API server writes, and values without effect.
fn defaults(fields: &Fields<'_>) {
    for value in [
        json!({}),
        json!({"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}),
        json!({"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}),
    ] {
        fields.quiet_if("flavorFungibility", &value);
    }
    fields.quiet_if(
        "admissionScope",
        &json!({"admissionMode": "NoAdmissionFairSharing"}),
    );
    for key in ["admissionChecks", "excludeResourcePrefixes"] {
        fields.quiet_if(key, &json!([]));
    }
}

fn others(fields: &Fields<'_>) {
    fields.note_at(
        "flavorFungibility",
        "cannot be said: the first flavor that has quota and nodes is taken, and only where none has is anybody preempted",
        "order the flavors so that the best comes first",
    );
    for key in ["admissionChecks", "admissionChecksStrategy"] {
        fields.note_at(
            key,
            "asks somebody else before a job starts, and here policies alone decide",
            "write what may run as a policy (docs/policies.md); no nodes are ordered",
        );
    }
    fields.note_at(
        "admissionScope",
        "orders namespaces by what they have used; here turns are taken by fair share among queues",
        "give each team a queue below one parent",
    );
    fields.note_at(
        "concurrentAdmissionPolicy",
        "moves a job to a better flavor while it runs, and here it stays where it is placed",
        "leave it out",
    );
    fields.note_at(
        "excludeResourcePrefixes",
        "leaves resources uncounted, and a queue offers no resource here that it does not name",
        "name them in resourceGroups, with a quota of all there is",
    );
}

/// Namespaces with a LocalQueue of the name `default` go here when they name none.
fn local_queues(root: &Fields<'_>, context: &Context, name: &str, spec: &mut QueueSpec) {
    let defaults = context.namespaces(name, Some("default"));
    if !defaults.is_empty() {
        spec.default_for = Some(of_namespaces(defaults));
    }
    let all = context.namespaces(name, None);
    let is_open = spec.namespace_selector == Some(LabelSelector::default());
    if is_open && !all.is_empty() {
        let why = format!(
            "lets in every namespace, and there it was those with a LocalQueue: {}",
            all.join(", ")
        );
        let narrow = serde_json::to_string(&of_namespaces(all)).unwrap_or_default();
        let instead = format!("to keep to those, write namespaceSelector: {narrow}");
        let value = json!({});
        root.log()
            .note("spec.namespaceSelector", Some(&value), why, instead);
    }
}

fn of_namespaces(names: Vec<String>) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: NAMESPACE_NAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(names),
        }]),
        ..LabelSelector::default()
    }
}

/// Converts a Cohort into a parent queue.
pub(crate) fn cohort(root: &Fields<'_>, _: &Context) -> Vec<Object> {
    let Some(metadata) = metadata::read(root, false) else {
        return Vec::new();
    };
    let mut spec = QueueSpec::default();
    if let Some(fields) = root.object("spec") {
        // v1alpha1 calls it parent.
        for key in ["parent", "parentName"] {
            spec.parent_name = spec.parent_name.or_else(|| fields.text(key));
        }
        spec.resource_groups = quota::groups(&fields);
        spec.weight = quota::weight(&fields);
    }
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![Object::Queue(queue)]
}

/// Reads a LocalQueue. Trellis has none: jobs name the queue itself.
pub(crate) fn local_queue(root: &Fields<'_>, _: &Context) -> Vec<Object> {
    let Some(name) = metadata::name(root) else {
        return Vec::new();
    };
    let metadata = root.object("metadata");
    let namespace = metadata
        .as_ref()
        .and_then(|metadata| metadata.text("namespace"));
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let Some(spec) = root.object("spec") else {
        root.log()
            .wrong("spec", "is required: add spec.clusterQueue");
        return Vec::new();
    };
    match spec.at("clusterQueue") {
        Some(queue) => {
            let named = queue.as_text().unwrap_or_default();
            let of_default = if name == "default" {
                "; its defaultFor takes those that name none"
            } else {
                ""
            };
            queue.note(
                format!("becomes no object: jobs of namespace {namespace:?} write spec.queueName: {named}{of_default}"),
                format!("see that namespaceSelector of queue {named:?} lets that namespace in, by a label such as {NAMESPACE_NAME}: {namespace}"),
            );
        }
        None => {
            let message = "is required: name the ClusterQueue";
            root.log().wrong("spec.clusterQueue", message);
        }
    }
    spec.quiet_if("stopPolicy", &Value::from("None"));
    spec.note_at(
        "stopPolicy",
        "stops the jobs of one namespace, and here a TrainingQueue is stopped as a whole",
        "take the namespace out of the TrainingQueue's namespaceSelector",
    );
    spec.note_at(
        "fairSharing",
        "shares a queue among namespaces, and here turns are taken among queues",
        "give each namespace a TrainingQueue of its own below one parent",
    );
    spec.note_at(
        "wallTimePolicy",
        "limits the hours of a namespace",
        "make a QuotaPolicy with gpuHours (docs/quota-policies.md)",
    );
    Vec::new()
}
