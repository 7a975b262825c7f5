//! ClusterQueue, Cohort and LocalQueue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::names::NAMESPACE_NAME;
use trellis_api::queue::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, FlavorPolicy, QueuePreemption, QueueSpec,
    QueueingStrategy, StopPolicy, TrainingQueue, WhenCanBorrow, WhenCanPreempt,
};

use super::{configuration, quota};
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;

/// Converts a ClusterQueue.
pub(crate) fn convert_cluster_queue(
    root: &Fields<'_>,
    context: &ImportContext,
) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let name = metadata.name.clone().unwrap_or_default();
    if context.is_cohort(&name) {
        let message = "is also the name of a cohort, and in Trellis both are queues: rename the cohort, or the ClusterQueue with clusterQueue of its LocalQueues";
        root.log().add_problem("metadata.name", message);
    }
    let mut spec = QueueSpec::default();
    if let Some(fields) = root.object("spec") {
        // v1beta1 calls it cohort.
        for key in ["cohort", "cohortName"] {
            spec.parent_name = spec.parent_name.or_else(|| fields.text(key));
        }
        spec.resource_groups = quota::read_groups(&fields);
        spec.weight = quota::read_weight(&fields);
        spec.namespace_selector = read_selector(&fields);
        let strategy = read_word::<QueueingStrategy>(&fields, "queueingStrategy");
        spec.queueing_strategy = strategy.filter(|s| *s != QueueingStrategy::BestEffortFifo);
        spec.flavor_policy = read_flavor_policy(&fields);
        spec.preemption = read_preemption(&fields, context);
        let stop = read_word::<StopPolicy>(&fields, "stopPolicy");
        spec.stop_policy = stop.filter(|stop| *stop != StopPolicy::None);
        ignore_defaults(&fields);
        note_unsupported(&fields);
    }
    read_local_queues(root, context, &name, &mut spec);
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![ImportedObject::Queue(queue)]
}

/// Returns the namespace selector, if the Kubernetes type contains all of its fields.
fn read_selector(fields: &Fields<'_>) -> Option<LabelSelector> {
    let written = fields.get("namespaceSelector")?;
    let read: Option<LabelSelector> = serde_json::from_value(written.value().clone()).ok();
    let is_same = |read: &LabelSelector| {
        serde_json::to_value(read).is_ok_and(|again| again == *written.value())
    };
    match read {
        Some(read) if is_same(&read) => {
            written.mark_read();
            Some(read)
        }
        _ => {
            let log = fields.log();
            log.add_problem(
                written.path(),
                "must be a label selector: write matchLabels and matchExpressions, or {} for all namespaces",
            );
            None
        }
    }
}

/// Returns a word that both systems have. Any other word is a problem.
fn read_word<T: DeserializeOwned>(fields: &Fields<'_>, key: &str) -> Option<T> {
    let text = fields.text(key)?;
    let word = serde_json::from_value(json!(text)).ok();
    if word.is_none() {
        let message = format!("is {text:?}, which is not a known value: correct it");
        fields.log().add_problem(&fields.field_path(key), message);
    }
    word
}

/// Reads `flavorFungibility`. `v1beta2` calls the first choice of both fields MayStopSearch.
fn read_flavor_policy(fields: &Fields<'_>) -> Option<FlavorPolicy> {
    let fungibility = fields.object("flavorFungibility")?;
    let is_next = |key: &str, first: &str| {
        let words = ["MayStopSearch", first, "TryNextFlavor"];
        Some(fungibility.one_of(key, &words)? == "TryNextFlavor")
    };
    let borrow = is_next("whenCanBorrow", "Borrow");
    let preempt = is_next("whenCanPreempt", "Preempt");
    fungibility.ignore_if("preference", &json!("BorrowingOverPreemption"));
    fungibility.note_at(
        "preference",
        "prefers preemption in one flavor to borrowing in another, and Trellis borrows first",
        "set flavorPolicy.whenCanPreempt: Preempt to preempt in the first flavor",
    );
    let policy = FlavorPolicy {
        when_can_borrow: borrow
            .filter(|next| *next)
            .map(|_| WhenCanBorrow::TryNextFlavor),
        when_can_preempt: preempt
            .filter(|next| !*next)
            .map(|_| WhenCanPreempt::Preempt),
    };
    Some(policy).filter(|policy| *policy != FlavorPolicy::default())
}

fn read_preemption(fields: &Fields<'_>, context: &ImportContext) -> Option<QueuePreemption> {
    let preemption = fields.object("preemption")?;
    let borrow = preemption.object("borrowWithinCohort").and_then(|borrow| {
        let policy = read_word::<BorrowWithinCohortPolicy>(&borrow, "policy");
        let maximum = borrow.small_integer("maxPriorityThreshold");
        let found = BorrowWithinCohort {
            policy,
            max_priority_threshold: maximum,
        };
        // Never is the default.
        Some(found).filter(|f| f.policy == Some(BorrowWithinCohortPolicy::LowerPriority))
    });
    let mut found = QueuePreemption {
        within_cluster_queue: read_word(&preemption, "withinClusterQueue"),
        reclaim_within_cohort: read_word(&preemption, "reclaimWithinCohort"),
        borrow_within_cohort: borrow,
        fair_share: None,
    };
    if context.has_fair_sharing {
        if found.borrow_within_cohort.is_some() {
            preemption.note_at(
                "borrowWithinCohort",
                "is left out, because Kueue ignores it with fair sharing, which the Configuration enables",
                "use preemption.fairShare (docs/queues.md), which the import sets unless reclaimWithinCohort is Never",
            );
        }
        configuration::add_fair_share(&mut found);
    }
    Some(found).filter(|found| *found != QueuePreemption::default())
}

/// Ignores defaults that the API server writes, and values without effect.
fn ignore_defaults(fields: &Fields<'_>) {
    fields.ignore_if(
        "admissionScope",
        &json!({"admissionMode": "NoAdmissionFairSharing"}),
    );
    for key in ["admissionChecks", "excludeResourcePrefixes"] {
        fields.ignore_if(key, &json!([]));
    }
}

fn note_unsupported(fields: &Fields<'_>) {
    for key in ["admissionChecks", "admissionChecksStrategy"] {
        fields.note_at(
            key,
            "asks an external check before a job starts, and in Trellis only policies decide",
            "write a policy for the jobs that may run (docs/policies.md); for checks that get new nodes, set provisioning (docs/autoscaling.md)",
        );
    }
    fields.note_at(
        "admissionScope",
        "orders namespaces by their past usage, and Trellis orders queues by fair share",
        "give each team a queue below one parent",
    );
    fields.note_at(
        "concurrentAdmissionPolicy",
        "moves a running job to a better flavor, and in Trellis a job stays where it is placed",
        "leave it out",
    );
    fields.note_at(
        "excludeResourcePrefixes",
        configuration::EXCLUDED_RESOURCES[0],
        configuration::EXCLUDED_RESOURCES[1],
    );
}

/// Makes the queue the default of namespaces that have a LocalQueue with the name `default`.
fn read_local_queues(root: &Fields<'_>, context: &ImportContext, name: &str, spec: &mut QueueSpec) {
    let defaults = context.namespaces(name, Some("default"));
    if !defaults.is_empty() {
        spec.default_for = Some(namespace_selector(defaults));
    }
    let all = context.namespaces(name, None);
    let is_open = spec.namespace_selector == Some(LabelSelector::default());
    if is_open && !all.is_empty() {
        let reason = format!(
            "admits every namespace, and Kueue admitted only those with a LocalQueue: {}",
            all.join(", ")
        );
        let narrow = serde_json::to_string(&namespace_selector(all)).unwrap_or_default();
        let instead = format!("to admit only those, write namespaceSelector: {narrow}");
        let value = json!({});
        root.log()
            .note("spec.namespaceSelector", Some(&value), reason, instead);
    }
}

fn namespace_selector(names: Vec<String>) -> LabelSelector {
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
pub(crate) fn convert_cohort(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let mut spec = QueueSpec::default();
    if let Some(fields) = root.object("spec") {
        // v1alpha1 calls it parent.
        for key in ["parent", "parentName"] {
            spec.parent_name = spec.parent_name.or_else(|| fields.text(key));
        }
        spec.resource_groups = quota::read_groups(&fields);
        spec.weight = quota::read_weight(&fields);
    }
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![ImportedObject::Queue(queue)]
}

/// Reads a LocalQueue. Trellis has no such kind, because jobs name the queue itself.
pub(crate) fn convert_local_queue(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(name) = metadata::object_name(root) else {
        return Vec::new();
    };
    let metadata = root.object("metadata");
    let namespace = metadata
        .as_ref()
        .and_then(|metadata| metadata.text("namespace"));
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let Some(spec) = root.object("spec") else {
        root.log()
            .add_problem("spec", "is required: add spec.clusterQueue");
        return Vec::new();
    };
    match spec.get("clusterQueue") {
        Some(queue) => {
            let named = queue.as_text().unwrap_or_default();
            let of_default = if name == "default" {
                "; its defaultFor takes the jobs without a queue"
            } else {
                ""
            };
            queue.note(
                format!("becomes no object: jobs in namespace {namespace:?} set spec.queueName: {named}{of_default}"),
                format!("check that namespaceSelector of queue {named:?} admits that namespace, by a label such as {NAMESPACE_NAME}: {namespace}"),
            );
        }
        None => {
            let message = "is required: name the ClusterQueue";
            root.log().add_problem("spec.clusterQueue", message);
        }
    }
    spec.ignore_if("stopPolicy", &Value::from("None"));
    spec.note_at(
        "stopPolicy",
        "stops the jobs of one namespace, and Trellis stops a TrainingQueue as a whole",
        "remove the namespace from the TrainingQueue's namespaceSelector",
    );
    spec.note_at(
        "fairSharing",
        "shares a queue among namespaces, and Trellis shares only among queues",
        "give each namespace a TrainingQueue of its own below one parent",
    );
    spec.note_at(
        "wallTimePolicy",
        "limits the hours of a namespace",
        "create a QuotaPolicy with gpuHours (docs/quota-policies.md)",
    );
    Vec::new()
}
