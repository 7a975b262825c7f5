//! Kueue: the core Jobs that it queues, its queues, flavors and topologies.
//!
//! Sources of the fields: kubernetes-sigs/kueue, `apis/kueue/v1beta1` and `v1beta2`; for Jobs,
//! Kubernetes' own batch/v1.

pub(crate) mod failure;
mod flavor;
mod job;
mod priority;
mod queue;
mod quota;

use trellis_api::job::TrainingJobSpec;

use crate::context::Context;
use crate::draft::Draft;
use crate::fields::Fields;
use crate::pod::Said;

pub(crate) use flavor::{flavor, topology};
pub(crate) use job::job;
pub(crate) use priority::workload_priority_class;
pub(crate) use queue::{cluster_queue, cohort, local_queue};

const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
const MAX_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// Reads the labels of a job that Kueue uses: queue, priority and maximum runtime. Must run before
/// the metadata is read. Returns true if the job is in a Kueue queue.
pub(crate) fn labels(root: &Fields<'_>, context: &Context, draft: &mut Draft) -> bool {
    let Some(metadata) = root.object("metadata") else {
        return false;
    };
    let Some(labels) = metadata.object("labels") else {
        return of_annotation(&metadata, context, &mut draft.spec);
    };
    if let Some(seconds) = labels.text(MAX_SECONDS) {
        let path = labels.inside(MAX_SECONDS);
        match seconds.parse() {
            Ok(value) => draft.may_run(Said { value, path }, root.log()),
            Err(_) => {
                let message = "must be a number of seconds: write digits alone";
                root.log().wrong(&path, message);
            }
        }
    }
    if let Some(class) = labels.at(PRIORITY_CLASS) {
        let name = class.as_text();
        if !name
            .as_ref()
            .is_some_and(|name| context.has_priority_class(name))
        {
            class.note(
                "is a WorkloadPriorityClass, which orders the queue alone; here it is a PriorityClass of that name, which pods bear too",
                "give its document too, or make one (scheduling.k8s.io/v1) of the same value",
            );
        }
        draft.spec.priority_class_name = name;
    }
    match labels.at(QUEUE_NAME) {
        Some(label) => {
            queue(&label, &metadata, context, &mut draft.spec);
            true
        }
        None => of_annotation(&metadata, context, &mut draft.spec),
    }
}

/// Reads the queue name from the annotation that preceded the label.
fn of_annotation(metadata: &Fields<'_>, context: &Context, spec: &mut TrainingJobSpec) -> bool {
    let annotations = metadata.object("annotations");
    let Some(name) = annotations.and_then(|annotations| annotations.at(QUEUE_NAME)) else {
        return false;
    };
    queue(&name, metadata, context, spec);
    true
}

/// True if an object has the label by which Kueue queues it.
pub(crate) fn is_queued(object: &serde_json::Value) -> bool {
    let labels = object
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    labels.is_some_and(|labels| labels.get(QUEUE_NAME).is_some())
}

/// The queue that a LocalQueue leads to.
fn queue(name: &Fields<'_>, metadata: &Fields<'_>, context: &Context, spec: &mut TrainingJobSpec) {
    let Some(local) = name.as_text() else { return };
    let namespace = metadata.value().get("namespace").and_then(|n| n.as_str());
    let namespace = namespace.unwrap_or("default");
    if let Some(queue) = context.cluster_queue(namespace, &local) {
        spec.queue_name = Some(queue.to_owned());
        return;
    }
    spec.queue_name = Some(local);
    name.note(
        "is a LocalQueue that is not among the documents, and jobs name the queue itself here",
        "give its document too, or see that spec.queueName is the name of a TrainingQueue",
    );
}
