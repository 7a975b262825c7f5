//! The queues of KAI in the input. The quota of a parent includes the quotas of its children, and in
//! Trellis it does not.

use std::collections::BTreeMap;

use serde_json::Value;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;

/// An amount in the unit of KAI. None: unlimited, which KAI writes as -1.
pub(super) type Limit = Option<Amount>;

/// The resources of a queue: the key in KAI, the resource, and the unit of KAI as a suffix of
/// quantities.
pub(super) const RESOURCES: [(&str, &str, &str); 3] = [
    ("gpu", "nvidia.com/gpu", ""),
    ("cpu", "cpu", "m"),
    ("memory", "memory", "M"),
];

/// Greatest depth of a tree. It ends the search if parents form a cycle. Trellis starts no jobs in
/// such queues.
const MAX_DEPTH: usize = 32;

struct QueueEntry {
    parent: Option<String>,
    /// The guaranteed amounts in the order of [`RESOURCES`].
    guaranteed: [Limit; 3],
}

/// The queues by name.
#[derive(Default)]
pub(crate) struct QueueTree(BTreeMap<String, QueueEntry>);

impl QueueTree {
    /// Adds a Queue of the input.
    pub(crate) fn insert(&mut self, name: &str, queue: &Value) {
        let amount = |key: &str, field: &str| {
            let value = queue.pointer(&format!("/spec/resources/{key}/{field}"));
            value.and_then(parse_limit).unwrap_or(Some(Amount::ZERO))
        };
        let parent = queue.pointer("/spec/parentQueue").and_then(Value::as_str);
        let guaranteed =
            RESOURCES.map(|(key, _, _)| guaranteed(amount(key, "quota"), amount(key, "limit")));
        let entry = QueueEntry {
            parent: parent.filter(|name| !name.is_empty()).map(str::to_owned),
            guaranteed,
        };
        self.0.insert(name.to_owned(), entry);
    }

    /// Returns true if no queue of the input is below this one.
    pub(super) fn is_leaf(&self, name: &str) -> bool {
        self.children(name).next().is_none()
    }

    /// Returns true if another queue of the input has no parent either.
    pub(super) fn has_several_roots(&self) -> bool {
        self.0
            .values()
            .filter(|queue| queue.parent.is_none())
            .count()
            > 1
    }

    /// Returns true if no queue of the input has a finite quota or limit.
    pub(super) fn is_unlimited(&self) -> bool {
        let mut amounts = self.0.values().flat_map(|queue| queue.guaranteed);
        amounts.all(|amount| amount.is_none())
    }

    /// Returns the sum of the amounts that the queues below a queue are guaranteed. `resource` is an
    /// index of [`RESOURCES`].
    pub(super) fn guaranteed_below(&self, name: &str, resource: usize) -> Amount {
        self.sum_below(name, resource, MAX_DEPTH)
    }

    fn sum_below(&self, name: &str, resource: usize, depth: usize) -> Amount {
        let Some(depth) = depth.checked_sub(1) else {
            return Amount::ZERO;
        };
        let amounts = self.children(name).map(|(child, queue)| {
            let own = queue.guaranteed.get(resource).copied().flatten();
            let below = self.sum_below(child, resource, depth);
            // In Trellis, a tree has at least the sum of its queues.
            own.map_or(below, |own| own.max(below))
        });
        amounts.fold(Amount::ZERO, |sum, amount| {
            sum.checked_add(amount).unwrap_or(sum)
        })
    }

    /// Returns true if a queue above this one has a finite amount of the resource.
    pub(super) fn has_limited_ancestor(&self, name: &str, resource: usize) -> bool {
        let parent = |name: &str| self.0.get(name)?.parent.as_deref();
        // A cycle has at most as many queues as the input.
        let ancestors = std::iter::successors(parent(name), |name| parent(name));
        let mut ancestors = ancestors.take(self.0.len());
        ancestors.any(|name| {
            let queue = self.0.get(name);
            let amount = queue.and_then(|queue| queue.guaranteed.get(resource));
            amount.is_some_and(Option::is_some)
        })
    }

    fn children(&self, name: &str) -> impl Iterator<Item = (&str, &QueueEntry)> {
        let queues = self.0.iter().map(|(name, queue)| (name.as_str(), queue));
        queues.filter(move |(_, queue)| queue.parent.as_deref() == Some(name))
    }
}

/// Parses an amount. None: it is neither a number of at least 0 nor -1.
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
