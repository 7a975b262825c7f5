//! Volcano's Queue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use trellis_api::Quantity;
use trellis_api::queue::{QueueSpec, QueueingStrategy, StopPolicy, TrainingQueue};

use super::quota::read_quotas;
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::queue_tree::QueueTree;

/// Volcano's root queue, the parent of queues that name none.
pub(super) const ROOT_QUEUE: &str = "root";

/// Converts a Queue.
pub(crate) fn convert_queue(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let name = metadata.name.clone().unwrap_or_default();
    let mut spec = QueueSpec::default();
    if name != ROOT_QUEUE {
        // Every namespace may use a queue of Volcano.
        spec.namespace_selector = Some(LabelSelector::default());
        spec.default_for = (name == "default").then(LabelSelector::default);
    }
    if let Some(fields) = root.object("spec") {
        read_spec(&fields, &name, &context.volcano_queues, &mut spec);
    }
    read_state(root, &mut spec);
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![ImportedObject::Queue(queue)]
}

fn read_spec(fields: &Fields<'_>, name: &str, tree: &QueueTree, spec: &mut QueueSpec) {
    let parent = fields.text("parent").filter(|parent| !parent.is_empty());
    spec.resource_groups = read_quotas(fields, name, tree);
    // In Trellis, queues lend to each other only below a common parent. In Volcano, all queues do.
    let lends = !spec.resource_groups.is_empty() && name != ROOT_QUEUE;
    spec.parent_name = parent.or_else(|| lends.then(|| ROOT_QUEUE.to_owned()));
    if let Some(weight) = fields.integer("weight") {
        spec.weight = (weight != 1).then(|| Quantity::from_units(weight));
        fields.ignore_if("weight", &json!(1));
        if weight != 1 {
            fields.note_at(
                "weight",
                "divides the cluster in Volcano, and only orders queues in Trellis",
                "write the share of the queue as nominal quota, or let queues take what they borrow by weight with preemption.fairShare (docs/queues.md)",
            );
        }
    }
    spec.queueing_strategy = match fields.text("dequeueStrategy").as_deref() {
        Some("fifo") => Some(QueueingStrategy::StrictFifo),
        None | Some("traverse") => None,
        Some(_) => {
            let message = "must be fifo or traverse: write one of them";
            fields
                .log()
                .add_problem(&fields.field_path("dequeueStrategy"), message);
            None
        }
    };
    fields.ignore_if("reclaimable", &json!(true));
    fields.note_at(
        "reclaimable",
        "protects borrowed quota, and in Trellis other queues can reclaim borrowed quota",
        "preemptibility: ProtectedWithinQuota protects jobs within the quota of their queue",
    );
    fields.ignore_if("priority", &json!(0));
    spec.priority = fields.small_integer("priority").filter(|p| *p != 0);
    if spec.priority.is_some() {
        fields.note_at(
            "priority",
            "orders all queues in Volcano, and in Trellis only queues that stay within their quota",
            "write the share of the queue as nominal quota (docs/queues.md)",
        );
    }
    fields.note_at(
        "affinity",
        "binds the queue to groups of nodes, which are flavors in Trellis",
        "create a ResourceFlavor with the nodes' labels, and name it in the quotas instead of default",
    );
    fields.note_at(
        "extendClusters",
        "is about other clusters, and Trellis schedules one cluster",
        "leave it out",
    );
    fields.note_at("type", "has no effect in Trellis", "leave it out");
}

/// Reads the state of a queue. Volcano stores it in the status.
fn read_state(root: &Fields<'_>, spec: &mut QueueSpec) {
    let state = root
        .value()
        .get("status")
        .and_then(|status| status.get("state"));
    if state.is_some_and(|state| state == "Closed" || state == "Closing") {
        spec.stop_policy = Some(StopPolicy::Hold);
        let reason = "closes the queue, and in Trellis spec.stopPolicy closes it";
        root.log().note(
            "status.state",
            state,
            reason,
            "set stopPolicy to None to open it",
        );
    }
}
