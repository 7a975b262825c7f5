//! Quotas of Volcano's queues.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_api::queue::{DEFAULT_FLAVOR, FlavorQuotas, ResourceGroup, ResourceQuota};

use super::queue::ROOT_QUEUE;
use crate::amounts::format_like;
use crate::fields::Fields;
use crate::queue_tree::{CHILDREN_EXCEED_PARENT, Limit, OwnQuota, QueueAmount, QueueTree};

/// Adds a Queue of the input.
pub(crate) fn insert_queue(tree: &mut QueueTree, name: &str, queue: &Value) {
    let spec = queue.get("spec").unwrap_or(&Value::Null);
    let parent = spec.get("parent").and_then(Value::as_str);
    let parent = parent.filter(|parent| !parent.is_empty());
    let parent = parent.or_else(|| (name != ROOT_QUEUE).then_some(ROOT_QUEUE));
    let resources = QueueResources::from_spec(spec);
    let amounts = resources.names().into_iter().map(|resource| {
        let amount = QueueAmount {
            guaranteed: resources.guaranteed(resource),
            is_limited: true,
        };
        (resource.to_owned(), amount)
    });
    tree.insert(name, parent, amounts.collect());
}

/// Amounts of a queue by resource.
struct QueueResources {
    deserved: BTreeMap<String, Quantity>,
    capability: BTreeMap<String, Quantity>,
    guarantee: BTreeMap<String, Quantity>,
}

impl QueueResources {
    /// Reads the valid amounts.
    fn from_spec(spec: &Value) -> Self {
        let quantities = |pointer: &str| {
            let entries = spec.pointer(pointer).and_then(Value::as_object);
            let entries = entries.into_iter().flatten();
            entries
                .filter_map(|(name, value)| Some((name.clone(), parse_quantity(value)?)))
                .collect()
        };
        Self {
            deserved: quantities("/deserved"),
            capability: quantities("/capability"),
            guarantee: quantities("/guarantee/resource"),
        }
    }

    /// Returns the resources with a quota.
    fn names(&self) -> BTreeSet<&str> {
        let names = self.deserved.keys().chain(self.capability.keys());
        names.map(String::as_str).collect()
    }

    fn capability(&self, resource: &str) -> Limit {
        self.capability.get(resource)?.amount().ok()
    }

    /// Returns the amount that the queue is guaranteed, with the queues below it: `deserved`, or else
    /// the guarantee, as in Volcano. The capability bounds it.
    fn guaranteed(&self, resource: &str) -> Limit {
        let amount = |of: &BTreeMap<String, Quantity>| of.get(resource)?.amount().ok();
        let deserved = amount(&self.deserved).or_else(|| amount(&self.guarantee))?;
        let limit = self.capability(resource);
        Some(limit.map_or(deserved, |limit| deserved.min(limit)))
    }

    /// Returns true if the queue sets no `deserved`, and a queue above has an amount of the resource.
    fn borrows_from_above(&self, queue: &str, resource: &str, tree: &QueueTree) -> bool {
        self.deserved.is_empty() && tree.has_limited_ancestor(queue, resource)
    }

    /// Returns the quota of a resource without the quotas of the children.
    fn own_quota(&self, queue: &str, resource: &str, tree: &QueueTree) -> OwnQuota {
        let limit = self.capability(resource);
        let has_quota = !self.deserved.is_empty() || self.borrows_from_above(queue, resource, tree);
        let all = match has_quota {
            true => self.guaranteed(resource),
            // Without `deserved`, the queue's capability is its quota.
            false => limit,
        };
        tree.split(queue, resource, all.unwrap_or(Amount::ZERO), limit)
    }

    fn to_resource_quota(&self, resource: &str, own: &OwnQuota) -> ResourceQuota {
        let capability = self.capability.get(resource);
        let like = self.deserved.get(resource).or(capability);
        let lending = self.guarantee.get(resource).and_then(|guarantee| {
            // The limit applies to the whole tree of the queue.
            let amount = own.tree.saturating_sub(guarantee.amount().ok()?);
            Some(format_like(amount, like))
        });
        ResourceQuota {
            name: resource.to_owned(),
            nominal_quota: Some(format_like(own.nominal, like)),
            borrowing_limit: own
                .borrowing_limit
                .map(|amount| format_like(amount, capability)),
            lending_limit: lending,
        }
    }
}

fn parse_quantity(value: &Value) -> Option<Quantity> {
    let quantity = match value {
        Value::String(text) => Quantity::new(text.as_str()),
        Value::Number(number) => Quantity::new(number.to_string()),
        _ => return None,
    };
    quantity.amount().is_ok().then_some(quantity)
}

/// Reads the quota as one group with the flavor `default`, which contains every node.
pub(super) fn read_quotas(
    fields: &Fields<'_>,
    queue: &str,
    tree: &QueueTree,
) -> Vec<ResourceGroup> {
    check_quantities(fields);
    let resources = QueueResources::from_spec(fields.value());
    note_lone_guarantees(fields, &resources);
    let names = resources.names();
    if names.is_empty() {
        return Vec::new();
    }
    let quotas = names.iter().map(|resource| {
        let own = resources.own_quota(queue, resource, tree);
        note_contradictions(fields, &resources, resource, &own);
        resources.to_resource_quota(resource, &own)
    });
    let quotas = quotas.collect();
    note_bounded(fields, &resources, queue, tree);
    note_names(fields, &resources);
    vec![ResourceGroup {
        covered_resources: names.into_iter().map(str::to_owned).collect(),
        flavors: vec![FlavorQuotas {
            name: DEFAULT_FLAVOR.to_owned(),
            resources: quotas,
        }],
    }]
}

/// Reports amounts that are no quantities.
fn check_quantities(fields: &Fields<'_>) {
    let guarantee = fields.object("guarantee");
    let owners = [
        (Some(fields), "deserved"),
        (Some(fields), "capability"),
        (guarantee.as_ref(), "resource"),
    ];
    for (owner, key) in owners {
        for (_, amount) in owner.into_iter().flat_map(|owner| owner.entries(key)) {
            amount.as_quantity();
        }
    }
}

/// Notes guarantees of resources without a quota.
fn note_lone_guarantees(fields: &Fields<'_>, resources: &QueueResources) {
    let names = resources.names();
    for (resource, amount) in &resources.guarantee {
        if !names.contains(resource.as_str()) {
            fields.log().note(
                &fields.field_path(&format!("guarantee.resource.{resource}")),
                Some(&json!(amount)),
                "is reserved for the queue, and without deserved or capability the queue has no quota to reserve",
                "write it as nominalQuota, with lendingLimit 0",
            );
        }
    }
}

/// Notes amounts of a resource that contradict each other, or those of the children.
fn note_contradictions(
    fields: &Fields<'_>,
    resources: &QueueResources,
    resource: &str,
    own: &OwnQuota,
) {
    let parts = [
        ("deserved", &resources.deserved),
        ("capability", &resources.capability),
        ("guarantee.resource", &resources.guarantee),
    ];
    let [deserved, capability, guarantee] = parts.map(|(key, amounts)| {
        let quantity = amounts.get(resource)?;
        let path = fields.field_path(&format!("{key}.{resource}"));
        Some((quantity.amount().ok()?, json!(quantity), path))
    });
    let note = |amount: &(Amount, Value, String), reason: &str, instead: &str| {
        let (_, value, path) = amount;
        fields.log().note(path, Some(value), reason, instead);
    };
    let [exceeded, lower] = CHILDREN_EXCEED_PARENT;
    let is_less = |amount: &&(Amount, Value, String)| own.is_exceeded && amount.0 < own.tree;
    match (
        capability.as_ref().filter(is_less),
        deserved.as_ref().filter(is_less),
    ) {
        (Some(amount), _) | (None, Some(amount)) => note(amount, exceeded, lower),
        (None, None) => {}
    }
    if let Some(guarantee) = guarantee.filter(|(amount, ..)| *amount > own.tree) {
        let reason = "is more than the queue's quota, which includes it";
        note(&guarantee, reason, "raise nominalQuota to it");
    }
    if let (Some(capability), Some((deserved, ..))) = (capability, deserved)
        && capability.0 < deserved
    {
        let reason = "is less than deserved, so it is the quota in Trellis";
        note(&capability, reason, "correct one of the two");
    }
}

/// Notes resources with only a limit, below a queue with quota.
fn note_bounded(fields: &Fields<'_>, resources: &QueueResources, queue: &str, tree: &QueueTree) {
    let mut bounded = resources.names();
    bounded.retain(|resource| resources.borrows_from_above(queue, resource, tree));
    if bounded.is_empty() {
        return;
    }
    let bounded: Vec<_> = bounded.into_iter().collect();
    let path = fields.field_path("capability");
    let reason = format!(
        "only limits {}, because a queue above has the quota: nominalQuota is the guarantee or 0, and the queue may borrow up to its capability",
        bounded.join(", ")
    );
    fields.log().note(
        &path,
        None,
        reason,
        "to give the queue its own quota, raise its nominalQuota, and lower that of the queue above by the same amount",
    );
}

/// Notes the resources that jobs of the queue may request.
fn note_names(fields: &Fields<'_>, resources: &QueueResources) {
    let key = match resources.deserved.is_empty() {
        true => "capability",
        false => "deserved",
    };
    let path = fields.field_path(key);
    let names: Vec<_> = resources.names().into_iter().collect();
    let reason = format!(
        "names {}, and a TrainingQueue offers only the resources that it names",
        names.join(", ")
    );
    fields.log().mark_opened(&path);
    fields.log().note(
        &path,
        None,
        reason,
        "add the other resources that its jobs request; preemption.reclaimWithinCohort: Any reclaims lent quota at once",
    );
}
