//! KAI's labels and annotations of a job.

use serde_json::Value;
use trellis_api::job::Preemptibility;
use trellis_api::topology::Closeness;

use super::topology::{PREFERRED, REQUIRED, read_level, read_topology_name};
use super::{NODE_POOL, PRIORITY_CLASS, QUEUE, note_missing_queue};
use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::field_log::FieldLog;
use crate::fields::Fields;
use crate::pod::ValueWithPath;

const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";
/// The label of KubeRay, which precedes KAI's.
const RAY_PRIORITY_CLASS: &str = "ray.io/priority-class-name";
/// The classes of KAI's installation with a value of at least 100, whose jobs KAI never preempts.
const PROTECTED_CLASSES: [&str; 2] = ["build", "inference"];

/// Returns true if an object has the label by which KAI queues it.
pub(crate) fn is_queued(object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    labels.is_some_and(|labels| labels.get(QUEUE).is_some())
}

/// Reads KAI's labels and annotations of a job. The caller reads the metadata afterwards. Returns
/// true if the job is in a queue of KAI.
pub(crate) fn read_job(root: &Fields<'_>, context: &ImportContext, draft: &mut JobDraft) -> bool {
    let Some(metadata) = root.object("metadata") else {
        return false;
    };
    if let Some(annotations) = metadata.object("annotations") {
        read_topology(&annotations, context, draft);
    }
    let Some(labels) = metadata.object("labels") else {
        return false;
    };
    draft.node_pool = labels.text(NODE_POOL);
    read_preemptibility(&labels, draft);
    let Some(queue) = labels.text(QUEUE) else {
        return false;
    };
    set_queue(&labels, queue, context, draft);
    for key in [RAY_PRIORITY_CLASS, PRIORITY_CLASS] {
        read_class(&labels, key, draft);
    }
    true
}

/// Sets the queue of the job, unless Kueue's label names one.
fn set_queue(labels: &Fields<'_>, queue: String, context: &ImportContext, draft: &mut JobDraft) {
    match &draft.spec.queue_name {
        Some(own) if *own != queue => labels.note_at(
            QUEUE,
            "differs from the queue in Kueue's label",
            "write the queue that you want into spec.queueName",
        ),
        Some(_) => {}
        None => {
            draft.spec.queue_name = Some(queue.clone());
            if !context.kai_queues.contains(&queue) {
                let path = labels.field_path(QUEUE);
                note_missing_queue(&ValueWithPath { value: queue, path }, labels.log());
            }
        }
    }
}

fn read_topology(annotations: &Fields<'_>, context: &ImportContext, draft: &mut JobDraft) {
    read_topology_name(annotations, context);
    let request = Closeness {
        required: read_level(annotations, REQUIRED, context),
        preferred: read_level(annotations, PREFERRED, context),
        ..Closeness::default()
    };
    for (field, key) in [("required", REQUIRED), ("preferred", PREFERRED)] {
        if annotations.get(key).is_none() {
            continue;
        }
        let path = annotations.field_path(key);
        annotations
            .log()
            .set_origin(format!("spec.topology.{field}"), &path);
    }
    draft.spec.topology = Some(request).filter(|r| *r != Closeness::default());
}

fn read_preemptibility(labels: &Fields<'_>, draft: &mut JobDraft) {
    let words = ["preemptible", "non-preemptible", "semi-preemptible"];
    let (reason, instead) = match labels.one_of(PREEMPTIBILITY, &words).as_deref() {
        None => return,
        Some("preemptible") => {
            draft.spec.preemptibility = Some(Preemptibility::Preemptible);
            return;
        }
        Some("non-preemptible") => (
            "limits the job to the quota of its queue; in Trellis the job may borrow, and is protected only within quota",
            "set borrowingLimit: 0 in the queue to keep its jobs within quota",
        ),
        Some(_) => (
            "protects minMember pods; Trellis protects the gang, and only while its queue is within quota",
            "leave preemptibility out if other jobs may preempt the job",
        ),
    };
    labels.note_at(PREEMPTIBILITY, reason, instead);
    draft.spec.preemptibility = Some(Preemptibility::ProtectedWithinQuota);
}

fn read_class(labels: &Fields<'_>, key: &str, draft: &mut JobDraft) {
    let Some(class) = labels.text(key) else {
        return;
    };
    let own = draft
        .spec
        .priority_class_name
        .get_or_insert_with(|| class.clone());
    if *own != class {
        labels.note_at(
            key,
            "differs from the class in another label",
            "write the class that you want into spec.priorityClassName",
        );
    } else {
        let path = labels.field_path(key);
        protect(draft, ValueWithPath { value: class, path }, labels.log());
    }
}

/// Protects the job if KAI never preempts jobs of its class and no label says otherwise.
fn protect(draft: &mut JobDraft, class: ValueWithPath<String>, log: &FieldLog) {
    let is_protected = PROTECTED_CLASSES.contains(&class.value.as_str());
    if !is_protected || draft.spec.preemptibility.is_some() {
        return;
    }
    log.note(
        &class.path,
        Some(&Value::from(class.value)),
        "is a class whose jobs KAI never preempts; Trellis protects the job only within quota",
        "leave preemptibility out if other jobs may preempt the job",
    );
    draft.spec.preemptibility = Some(Preemptibility::ProtectedWithinQuota);
}

/// Protects the job if pods of KAI give it a class whose jobs KAI never preempts.
pub(crate) fn protect_class_of_pods(draft: &mut JobDraft, log: &FieldLog) {
    let of_pods = draft.pods.iter().filter(|pods| pods.is_kai);
    let mut classes = of_pods.filter_map(|pods| pods.priority_class.clone());
    let used = draft.spec.priority_class_name.as_ref();
    if let Some(class) = classes.find(|class| Some(&class.value) == used) {
        protect(draft, class, log);
    }
}
