//! Kueue: the core Jobs that it queues, its queues, flavors and topologies.
//!
//! Sources of the fields: kubernetes-sigs/kueue, `apis/kueue/v1beta1` and `v1beta2`; for Jobs,
//! Kubernetes' own batch/v1.

mod configuration;
pub(crate) mod failure_policy;
mod flavor;
mod job;
mod priority_class;
mod queue;
mod quota;

use trellis_api::job::TrainingJobSpec;

use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::pod::ValueWithPath;

pub(crate) use configuration::{
    convert_configuration, enables_balanced_placement, enables_fair_sharing,
};
pub(crate) use flavor::{convert_flavor, convert_topology};
pub(crate) use job::convert_job;
pub(crate) use priority_class::convert_priority_class;
pub(crate) use queue::{convert_cluster_queue, convert_cohort, convert_local_queue};

const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
const MAX_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// Reads Kueue's labels of a job: queue, priority and maximum runtime. The caller reads the
/// metadata afterwards. Returns true if the job is in a queue of Kueue.
pub(crate) fn read_labels(
    root: &Fields<'_>,
    context: &ImportContext,
    draft: &mut JobDraft,
) -> bool {
    let Some(metadata) = root.object("metadata") else {
        return false;
    };
    let Some(labels) = metadata.object("labels") else {
        return read_queue_annotation(&metadata, context, &mut draft.spec);
    };
    if let Some(seconds) = labels.text(MAX_SECONDS) {
        let path = labels.field_path(MAX_SECONDS);
        match seconds.parse() {
            Ok(value) => draft.set_active_deadline(ValueWithPath { value, path }, root.log()),
            Err(_) => {
                let message = "must be a number of seconds: write digits only";
                root.log().add_problem(&path, message);
            }
        }
    }
    if let Some(class) = labels.get(PRIORITY_CLASS) {
        let name = class.as_text();
        if !name
            .as_ref()
            .is_some_and(|name| context.has_priority_class(name))
        {
            class.note(
                "is a WorkloadPriorityClass, which orders only the queue; in Trellis it is a PriorityClass of that name, which also applies to pods",
                "add its document to the input, or create a PriorityClass (scheduling.k8s.io/v1) with the same value",
            );
        }
        draft.spec.priority_class_name = name;
    }
    match labels.get(QUEUE_NAME) {
        Some(label) => {
            set_queue(&label, &metadata, context, &mut draft.spec);
            true
        }
        None => read_queue_annotation(&metadata, context, &mut draft.spec),
    }
}

/// Reads the queue name from the annotation that preceded the label.
fn read_queue_annotation(
    metadata: &Fields<'_>,
    context: &ImportContext,
    spec: &mut TrainingJobSpec,
) -> bool {
    let annotations = metadata.object("annotations");
    let Some(name) = annotations.and_then(|annotations| annotations.get(QUEUE_NAME)) else {
        return false;
    };
    set_queue(&name, metadata, context, spec);
    true
}

/// Returns true if an object has the label by which Kueue queues it.
pub(crate) fn is_queued(object: &serde_json::Value) -> bool {
    let labels = object
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    labels.is_some_and(|labels| labels.get(QUEUE_NAME).is_some())
}

/// Sets the queue of the job to the ClusterQueue of its LocalQueue.
fn set_queue(
    name: &Fields<'_>,
    metadata: &Fields<'_>,
    context: &ImportContext,
    spec: &mut TrainingJobSpec,
) {
    let Some(local) = name.as_text() else { return };
    let namespace = metadata.value().get("namespace").and_then(|n| n.as_str());
    let namespace = namespace.unwrap_or("default");
    if let Some(queue) = context.cluster_queue(namespace, &local) {
        spec.queue_name = Some(queue.to_owned());
        return;
    }
    spec.queue_name = Some(local);
    name.note(
        "is a LocalQueue that is not in the input, and in Trellis jobs name the TrainingQueue itself",
        "add its document to the input, or set spec.queueName to the name of a TrainingQueue",
    );
}
