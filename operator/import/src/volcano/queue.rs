//! Volcano's Queue.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use trellis_api::Quantity;
use trellis_api::queue::{
    DEFAULT_FLAVOR, FlavorQuotas, QueueSpec, QueueingStrategy, ResourceGroup, ResourceQuota,
    StopPolicy, TrainingQueue,
};

use crate::amounts::subtract;
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;

/// Volcano's root queue, the parent of queues that name none.
const ROOT_QUEUE: &str = "root";

/// Converts a Queue.
pub(crate) fn convert_queue(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
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
        read_spec(&fields, &name, &mut spec);
    }
    read_state(root, &mut spec);
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![ImportedObject::Queue(queue)]
}

fn read_spec(fields: &Fields<'_>, name: &str, spec: &mut QueueSpec) {
    let parent = fields.text("parent").filter(|parent| !parent.is_empty());
    spec.resource_groups = read_quotas(fields);
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

/// Reads the quota as one group with the flavor `default`, which contains every node.
fn read_quotas(fields: &Fields<'_>) -> Vec<ResourceGroup> {
    let amounts = |owner: &Fields<'_>, key: &str| -> BTreeMap<String, (Quantity, String)> {
        let entries = owner.entries(key).into_iter();
        entries
            .filter_map(|(name, at)| Some((name, (at.as_quantity()?, at.path().to_owned()))))
            .collect()
    };
    let deserved = amounts(fields, "deserved");
    let maximum = amounts(fields, "capability");
    let guarantee = fields.object("guarantee");
    let minimum = guarantee
        .map(|guarantee| amounts(&guarantee, "resource"))
        .unwrap_or_default();
    let names: BTreeSet<&String> = deserved.keys().chain(maximum.keys()).collect();
    let log = fields.log();
    for (amount, path) in minimum
        .iter()
        .filter(|(name, _)| !names.contains(name))
        .map(|(_, of)| of)
    {
        let reason = "is reserved for the queue, and without deserved or capability the queue has no quota to reserve";
        log.note(
            path,
            Some(&json!(amount)),
            reason,
            "write it as nominalQuota, with lendingLimit 0",
        );
    }
    if names.is_empty() {
        return Vec::new();
    }
    let quota = |name: &&String| {
        let (name, amount) = (*name, |of: &BTreeMap<String, (Quantity, String)>| {
            of.get(*name).map(|(amount, _)| amount.clone())
        });
        // Without `deserved`, the queue's capability is its nominal quota.
        let has_deserved = !deserved.is_empty();
        let nominal = match (amount(&deserved), amount(&maximum)) {
            (Some(deserved), _) => deserved,
            (None, Some(maximum)) if !has_deserved => maximum,
            (None, _) => Quantity::from_units(0),
        };
        ResourceQuota {
            name: name.clone(),
            borrowing_limit: amount(&maximum).and_then(|maximum| subtract(&maximum, &nominal)),
            lending_limit: amount(&minimum).and_then(|minimum| subtract(&nominal, &minimum)),
            nominal_quota: Some(nominal),
        }
    };
    let quotas: Vec<ResourceQuota> = names.iter().map(quota).collect();
    for quota in &quotas {
        let nominal = quota.nominal_amount().ok();
        let of = |of: &BTreeMap<String, (Quantity, String)>, is_wrong: fn(Ordering) -> bool| {
            let (amount, path) = of.get(&quota.name)?;
            let order = amount.amount().ok()?.cmp(&nominal?);
            is_wrong(order).then(|| (json!(amount), path.clone()))
        };
        if let Some((amount, path)) = of(&minimum, Ordering::is_gt) {
            let reason = "is more than the queue's quota, which includes it";
            log.note(&path, Some(&amount), reason, "raise nominalQuota to it");
        }
        if let Some((amount, path)) = of(&maximum, Ordering::is_lt) {
            let reason = "is less than deserved, which is the quota in Trellis";
            log.note(&path, Some(&amount), reason, "lower nominalQuota to it");
        }
    }
    let all: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    let path = if deserved.is_empty() {
        "capability"
    } else {
        "deserved"
    };
    let reason = format!(
        "names {}, and a TrainingQueue offers only the resources that it names",
        all.join(", ")
    );
    log.mark_opened(&fields.field_path(path));
    log.note(
        &fields.field_path(path),
        None,
        reason,
        "add the other resources that its jobs request; preemption.reclaimWithinCohort: Any reclaims lent quota at once",
    );
    vec![ResourceGroup {
        covered_resources: names.into_iter().cloned().collect(),
        flavors: vec![FlavorQuotas {
            name: DEFAULT_FLAVOR.to_owned(),
            resources: quotas,
        }],
    }]
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
