//! KAI's Queue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_api::queue::{
    DEFAULT_FLAVOR, FairShareVictims, FlavorQuotas, QueuePreemption, QueueSpec,
    ReclaimWithinCohort, ResourceGroup, ResourceQuota, TrainingQueue, WithinClusterQueue,
};

use super::NODE_POOL;
use super::amounts::{RESOURCES, guaranteed, parse_limit};
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;
use crate::queue_tree::{CHILDREN_EXCEED_PARENT, Limit, QueueTree};
use crate::volcano::lifecycle_policies::parse_seconds;

/// The queue of jobs that name none.
const DEFAULT_QUEUE: &str = "default-queue";
/// The queue above all queues without a parent. In KAI they share the cluster.
const ROOT_QUEUE: &str = "root";
/// Default of a queue's priority.
const DEFAULT_PRIORITY: i64 = 100;

/// Converts a Queue.
pub(crate) fn convert_queue(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let labels = root.object("metadata").and_then(|m| m.object("labels"));
    if let Some(labels) = labels {
        labels.note_at(
            NODE_POOL,
            "binds the queue to a scheduling shard, which is a flavor in Trellis",
            "create a ResourceFlavor with this label of the nodes, and name it in the quotas instead of default",
        );
    }
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let Some(fields) = root.object("spec") else {
        root.log()
            .add_problem("spec", "is required: add spec.resources");
        return Vec::new();
    };
    let name = metadata.name.clone().unwrap_or_default();
    let tree = &context.kai_queues;
    let resource_groups = read_quotas(&fields, &name, tree);
    let is_below_root =
        name != ROOT_QUEUE && (!resource_groups.is_empty() || tree.has_several_roots());
    let parent = fields.text("parentQueue");
    let mut spec = QueueSpec {
        parent_name: parent.or_else(|| is_below_root.then(|| ROOT_QUEUE.to_owned())),
        weight: read_weight(&fields, &resource_groups),
        priority: read_priority(&fields),
        max_min_runtime_seconds: read_min_runtime(&fields),
        resource_groups,
        ..QueueSpec::default()
    };
    if tree.is_leaf(&name) {
        // Every namespace may use a queue of KAI.
        spec.namespace_selector = Some(LabelSelector::default());
        spec.default_for = (name == DEFAULT_QUEUE).then(LabelSelector::default);
        // KAI always preempts and reclaims.
        spec.preemption = Some(QueuePreemption {
            within_cluster_queue: Some(WithinClusterQueue::LowerPriority),
            reclaim_within_cohort: Some(ReclaimWithinCohort::Any),
            borrow_within_cohort: None,
            fair_share: Some(FairShareVictims::Any),
        });
    }
    fields.note_at(
        "displayName",
        "is a name for displays, and Trellis shows the name of the queue",
        "leave it out, or rename the queue",
    );
    let mut queue = TrainingQueue::new("", spec);
    queue.metadata = metadata;
    vec![ImportedObject::Queue(queue)]
}

/// Reads the quotas as one group with the flavor `default`, which contains every node. Empty: no
/// queue of the input has a finite quota, so the queue may use all capacity.
fn read_quotas(fields: &Fields<'_>, name: &str, tree: &QueueTree) -> Vec<ResourceGroup> {
    let log = fields.log();
    let Some(resources) = fields.object("resources") else {
        let message = "is required, as in KAI: add gpu, cpu and memory, with quota -1 for no limit";
        log.add_problem(&fields.field_path("resources"), message);
        return Vec::new();
    };
    let quotas = RESOURCES.iter().filter_map(|(key, resource, unit)| {
        let amounts = resources.object(key)?;
        Some(read_quota(&amounts, (resource, unit), name, tree))
    });
    let quotas: Vec<ResourceQuota> = quotas.collect();
    if quotas.is_empty() {
        let message = "names none of gpu, cpu and memory, so KAI starts no job: add them, with quota -1 for no limit";
        log.add_problem(resources.path(), message);
    }
    if quotas.is_empty() || tree.is_unlimited() {
        return Vec::new();
    }
    let covered: Vec<String> = quotas.iter().map(|quota| quota.name.clone()).collect();
    if tree.is_leaf(name) {
        let reason = format!(
            "names {}, and a TrainingQueue offers only the resources that it names",
            covered.join(", ")
        );
        let instead =
            "add the other resources that its jobs request, such as devices of the network";
        log.note(resources.path(), None, reason, instead);
    }
    vec![ResourceGroup {
        covered_resources: covered,
        flavors: vec![FlavorQuotas {
            name: DEFAULT_FLAVOR.to_owned(),
            resources: quotas,
        }],
    }]
}

/// Reads the quota of a resource, which has this unit.
fn read_quota(
    amounts: &Fields<'_>,
    (resource, unit): (&str, &str),
    name: &str,
    tree: &QueueTree,
) -> ResourceQuota {
    let (quota, limit) = (read_limit(amounts, "quota"), read_limit(amounts, "limit"));
    let lending = amounts
        .get("lendingLimit")
        .map(|_| read_limit(amounts, "lendingLimit"));
    let all = guaranteed(quota, limit);
    let own = all.map(|all| tree.split(name, resource, all, limit));
    let nominal = match &own {
        Some(own) => {
            if own.is_exceeded {
                let key = if quota == all { "quota" } else { "limit" };
                let [exceeded, lower] = CHILDREN_EXCEED_PARENT;
                amounts.log().note(
                    &amounts.field_path(key),
                    amounts.get(key).map(|amount| amount.value()),
                    exceeded,
                    lower,
                );
            }
            to_quantity(own.nominal, unit)
        }
        None if tree.has_limited_ancestor(name, resource) => {
            amounts.note_at(
                "quota",
                "is unlimited, and a queue above it has a finite quota or limit; nominalQuota becomes 0, and the queue borrows",
                "write the share of the queue as nominalQuota",
            );
            Quantity::from_units(0)
        }
        None => unlimited(unit),
    };
    if limit == Some(Amount::ZERO) && quota != limit {
        amounts.log().note(
            &amounts.field_path("limit"),
            amounts.get("limit").map(|limit| limit.value()),
            "is 0: KAI's scheduler then starts no job, although its documentation promises the quota; Trellis grants the quota",
            "set borrowingLimit to let the queue borrow",
        );
    }
    let beyond = own.and_then(|own| own.borrowing_limit);
    ResourceQuota {
        name: resource.to_owned(),
        nominal_quota: Some(nominal),
        borrowing_limit: beyond.map(|amount| to_quantity(amount, unit)),
        lending_limit: lending.flatten().map(|amount| to_quantity(amount, unit)),
    }
}

fn read_limit(amounts: &Fields<'_>, key: &str) -> Limit {
    let Some(field) = amounts.get(key) else {
        return Some(Amount::ZERO);
    };
    field.mark_read();
    parse_limit(field.value()).unwrap_or_else(|| {
        let message = "must be a number of 0 or more, or -1 for no limit: correct it";
        field.log().add_problem(field.path(), message);
        Some(Amount::ZERO)
    })
}

/// Converts an amount in the unit of KAI.
fn to_quantity(amount: Amount, unit: &str) -> Quantity {
    let quantity = Quantity::new(format!("{amount}{unit}"));
    match quantity.amount() {
        Ok(amount) if unit == "m" || amount == Amount::ZERO => Quantity::new(amount.to_string()),
        _ => quantity,
    }
}

/// Returns more than any cluster has.
fn unlimited(unit: &str) -> Quantity {
    Quantity::new(if unit == "M" { "10P" } else { "1M" })
}

/// Returns the weight of the first resource. None: it is 1, the default.
fn read_weight(fields: &Fields<'_>, groups: &[ResourceGroup]) -> Option<Quantity> {
    let resources = fields.object("resources")?;
    let weights = RESOURCES.iter().filter_map(|(key, _, _)| {
        let weight = resources.object(key)?.get("overQuotaWeight")?;
        Some((weight.as_quantity()?, weight))
    });
    let weights: Vec<(Quantity, Fields<'_>)> = weights.collect();
    let Some((first, origin)) = weights.first() else {
        let zero = Quantity::from_units(0);
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        let mut quotas = flavors.flat_map(|flavor| &flavor.resources);
        let may_borrow = quotas.any(|quota| quota.borrowing_limit.as_ref() != Some(&zero));
        return may_borrow.then(|| {
            fields.log().note(
                resources.path(),
                None,
                "names no overQuotaWeight, which is 0 in KAI",
                "weight 0 comes after all other queues: set the weight that you want",
            );
            zero
        });
    };
    for (_, other) in weights
        .iter()
        .filter(|(weight, _)| weight.amount() != first.amount())
    {
        other.note(
            "differs from the weight of another resource, and a TrainingQueue has one weight",
            format!("weight {first} is used: set the weight that you want"),
        );
    }
    fields
        .log()
        .set_origin("spec.weight".to_owned(), origin.path());
    let is_one = first.amount() == Ok(Amount::from_units(1));
    Some(first.clone()).filter(|_| !is_one)
}

/// Returns the priority relative to KAI's default, because the default of Trellis is 0.
fn read_priority(fields: &Fields<'_>) -> Option<i32> {
    let field = fields.get("priority")?;
    let value = i64::from(field.as_i32()?);
    let priority = i32::try_from(value.saturating_sub(DEFAULT_PRIORITY)).ok()?;
    if priority == 0 {
        return None;
    }
    field.note(
        format!("becomes {priority} ({value} less KAI's default of {DEFAULT_PRIORITY}); it orders queues within their quota, and KAI's orders queues beyond it"),
        "use weight to divide capacity beyond the quotas (docs/queues.md)",
    );
    Some(priority)
}

/// Returns the longest time for which KAI protects running jobs, in seconds.
fn read_min_runtime(fields: &Fields<'_>) -> Option<i64> {
    let times = ["preemptMinRuntime", "reclaimMinRuntime"].map(|key| {
        let field = fields.get(key)?;
        let text = field.as_text()?;
        let seconds = parse_seconds(&text);
        match seconds {
            Some(seconds) => field.log().note(
                field.path(),
                Some(&json!(text)),
                "protects each running job of the queue, and in Trellis only jobs that ask for it",
                format!("set minRuntimeSeconds: {seconds} in the jobs; maxMinRuntimeSeconds of the queue permits it"),
            ),
            None if ["0", "0s"].contains(&text.as_str()) => {}
            None => {
                let message = "must be a duration such as 10m: correct it";
                field.log().add_problem(field.path(), message);
            }
        }
        seconds
    });
    times.into_iter().flatten().max()
}
