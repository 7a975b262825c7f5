//! Amounts of KAI's queues.

use serde_json::Value;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;

use crate::queue_tree::{Limit, QueueAmount, QueueAmounts, QueueTree};

/// The resources of a queue: the key in KAI, the resource, and the unit of KAI as a suffix of
/// quantities.
pub(super) const RESOURCES: [(&str, &str, &str); 3] = [
    ("gpu", "nvidia.com/gpu", ""),
    ("cpu", "cpu", "m"),
    ("memory", "memory", "M"),
];

/// Adds a Queue of the input, with amounts in the units of KAI.
pub(crate) fn insert_queue(tree: &mut QueueTree, name: &str, queue: &Value) {
    let amounts =
        RESOURCES.map(|(key, resource, _)| (resource.to_owned(), read_amount(queue, key)));
    let parent = queue.pointer("/spec/parentQueue").and_then(Value::as_str);
    let parent = parent.filter(|name| !name.is_empty());
    tree.insert(name, parent, QueueAmounts::from(amounts));
}

fn read_amount(queue: &Value, key: &str) -> QueueAmount {
    let limit = |field: &str| {
        let value = queue.pointer(&format!("/spec/resources/{key}/{field}"));
        value.and_then(parse_limit).unwrap_or(Some(Amount::ZERO))
    };
    let guaranteed = guaranteed(limit("quota"), limit("limit"));
    QueueAmount {
        guaranteed,
        is_limited: guaranteed.is_some(),
    }
}

/// Parses an amount, which is -1 if there is no limit. None: it is neither a number of at least 0
/// nor -1.
pub(super) fn parse_limit(value: &Value) -> Option<Limit> {
    if value.as_f64() == Some(-1.0) {
        return Some(None);
    }
    let amount = Quantity::new(value.as_number()?.to_string())
        .amount()
        .ok()?;
    (amount >= Amount::ZERO).then_some(Some(amount))
}

/// Returns the amount that a queue is guaranteed: its quota, up to its limit. A limit of 0, the
/// default, adds nothing to the quota.
pub(super) fn guaranteed(quota: Limit, limit: Limit) -> Limit {
    let limit = limit.filter(|limit| *limit > Amount::ZERO);
    match (quota, limit) {
        (Some(quota), Some(limit)) => Some(quota.min(limit)),
        (quota, limit) => quota.or(limit),
    }
}
