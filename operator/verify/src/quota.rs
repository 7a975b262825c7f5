//! The arithmetic of quotas in a tree of queues, from Kueue's hierarchical cohorts (KEP-79).
//!
//! A queue keeps the part of its quota that it does not lend. The rest belongs to its parent, and
//! its use beyond the kept part counts at the parent.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::queue::{QueueSpec, ResourceQuota};

use crate::resources::millis;

/// A resource in a flavor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlavorResource {
    pub(crate) flavor: String,
    pub(crate) resource: String,
}

/// Amounts by queue and resource, in thousandths of the resource's unit.
pub(crate) type Usage = BTreeMap<(String, FlavorResource), i64>;

/// An amount of a queue and of the queues below it that exceeds what they may use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) queue: String,
    pub(crate) used: i64,
    pub(crate) allowed: i64,
}

/// Quota of one resource in one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    nominal: i64,
    borrowing_limit: Option<i64>,
    lending_limit: Option<i64>,
}

/// The queues, for one resource in one flavor.
pub(crate) struct QuotaTree<'a> {
    quotas: BTreeMap<&'a str, Quota>,
    parents: BTreeMap<&'a str, &'a str>,
    children: BTreeMap<&'a str, BTreeSet<&'a str>>,
    usage: BTreeMap<&'a str, i64>,
}

impl<'a> QuotaTree<'a> {
    pub(crate) fn new(
        queues: impl Iterator<Item = (&'a str, &'a QueueSpec)>,
        wanted: &FlavorResource,
        usage: &'a Usage,
    ) -> Self {
        let mut tree = Self {
            quotas: BTreeMap::new(),
            parents: BTreeMap::new(),
            children: BTreeMap::new(),
            usage: BTreeMap::new(),
        };
        for (name, spec) in queues {
            tree.quotas
                .insert(name, find_quota(spec, wanted).unwrap_or_default());
            if let Some(parent) = spec.parent_name.as_deref() {
                tree.parents.insert(name, parent);
                tree.children.entry(parent).or_default().insert(name);
            }
        }
        for ((queue, resource), amount) in usage {
            if resource == wanted {
                tree.usage.insert(queue, *amount);
            }
        }
        tree
    }

    /// Returns the queue or the lowest queue above it that uses more than it may. None also for a
    /// tree that has a cycle or lacks a queue, because Trellis starts no job in it.
    pub(crate) fn find_excess(&self, queue: &'a str) -> Option<Excess> {
        for queue in self.path(queue)? {
            let used = self.used(queue);
            if let Some(allowed) = self.allowed(queue)
                && used > allowed
            {
                return Some(Excess {
                    queue: queue.to_owned(),
                    used,
                    allowed,
                });
            }
            // The queues above see only what exceeds the kept part.
            if used <= self.kept(queue) {
                return None;
            }
        }
        None
    }

    /// Returns the queue and all queues above it.
    fn path(&self, queue: &'a str) -> Option<Vec<&'a str>> {
        let mut path = vec![queue];
        while let Some(parent) = self.parents.get(path.last()?) {
            if path.contains(parent) || !self.quotas.contains_key(parent) {
                return None;
            }
            path.push(parent);
        }
        Some(path)
    }

    /// Returns the quota of a queue with what the queues below it lend.
    fn quota(&self, queue: &str) -> i64 {
        let own = self.quotas.get(queue).map_or(0, |quota| quota.nominal);
        self.children(queue)
            .map(|child| self.quota(child).saturating_sub(self.kept(child)))
            .fold(own, i64::saturating_add)
    }

    /// Returns the part of its quota that a queue does not lend.
    fn kept(&self, queue: &str) -> i64 {
        let quota = self.quotas.get(queue).copied().unwrap_or_default();
        match quota.lending_limit {
            None => 0,
            Some(limit) => self.quota(queue).saturating_sub(limit).max(0),
        }
    }

    /// Returns what the queue uses, with what the queues below it use beyond their kept parts.
    fn used(&self, queue: &str) -> i64 {
        let own = self.usage.get(queue).copied().unwrap_or(0);
        self.children(queue)
            .map(|child| self.used(child).saturating_sub(self.kept(child)).max(0))
            .fold(own, i64::saturating_add)
    }

    /// Returns what the queue may use. None: its own quota sets no bound.
    fn allowed(&self, queue: &str) -> Option<i64> {
        let quota = self.quota(queue);
        if !self.parents.contains_key(queue) {
            return Some(quota);
        }
        let limit = self.quotas.get(queue)?.borrowing_limit?;
        Some(quota.saturating_add(limit))
    }

    fn children(&self, queue: &str) -> impl Iterator<Item = &'a str> {
        self.children.get(queue).into_iter().flatten().copied()
    }
}

/// Returns the quota of a queue for a resource in a flavor.
fn find_quota(spec: &QueueSpec, wanted: &FlavorResource) -> Option<Quota> {
    let groups = spec.resource_groups.iter();
    let mut flavors = groups.flat_map(|group| &group.flavors);
    let flavor = flavors.find(|flavor| flavor.name == wanted.flavor)?;
    let mut resources = flavor.resources.iter();
    let ResourceQuota {
        nominal_quota,
        borrowing_limit,
        lending_limit,
        ..
    } = resources.find(|quota| quota.name == wanted.resource)?;
    Some(Quota {
        nominal: nominal_quota.as_ref().and_then(millis).unwrap_or(0),
        borrowing_limit: borrowing_limit.as_ref().and_then(millis),
        lending_limit: lending_limit.as_ref().and_then(millis),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn gpu() -> FlavorResource {
        FlavorResource {
            flavor: "default".to_owned(),
            resource: "nvidia.com/gpu".to_owned(),
        }
    }

    fn queue(parent: Option<&str>, quota: Value) -> QueueSpec {
        let mut resource = quota;
        resource["name"] = json!("nvidia.com/gpu");
        serde_json::from_value(json!({
            "parentName": parent,
            "resourceGroups": [{
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "default", "resources": [resource]}],
            }],
        }))
        .unwrap()
    }

    /// Returns the excess after `used` GPUs in each queue, seen from queue "a".
    fn excess(queues: &[(&str, QueueSpec)], used: &[(&str, i64)]) -> Option<(String, i64, i64)> {
        let usage: Usage = used
            .iter()
            .map(|(queue, gpus)| (((*queue).to_owned(), gpu()), gpus.saturating_mul(1000)))
            .collect();
        let specs = queues.iter().map(|(name, spec)| (*name, spec));
        let excess = QuotaTree::new(specs, &gpu(), &usage).find_excess("a")?;
        Some((excess.queue, excess.used / 1000, excess.allowed / 1000))
    }

    #[test]
    fn queue_without_a_parent_uses_its_quota() {
        let queues = [("a", queue(None, json!({"nominalQuota": 8})))];
        assert_eq!(excess(&queues, &[("a", 8)]), None);
        assert_eq!(excess(&queues, &[("a", 9)]), Some(("a".to_owned(), 9, 8)));
    }

    #[test]
    fn siblings_borrow_up_to_the_quota_of_all_and_their_limits() {
        let queues = |borrowing: Value, lending: Value| {
            [
                ("root", queue(None, json!({"nominalQuota": 2}))),
                (
                    "a",
                    queue(
                        Some("root"),
                        json!({"nominalQuota": 4, "borrowingLimit": borrowing}),
                    ),
                ),
                (
                    "b",
                    queue(
                        Some("root"),
                        json!({"nominalQuota": 4, "lendingLimit": lending}),
                    ),
                ),
            ]
        };
        let free = queues(Value::Null, Value::Null);
        assert_eq!(excess(&free, &[("a", 10)]), None);
        assert_eq!(
            excess(&free, &[("a", 7), ("b", 4)]),
            Some(("root".to_owned(), 11, 10))
        );
        let borrower = queues(json!(1), Value::Null);
        assert_eq!(excess(&borrower, &[("a", 5)]), None);
        assert_eq!(excess(&borrower, &[("a", 6)]), Some(("a".to_owned(), 6, 5)));
        // "b" keeps 3 of its 4 GPUs, so the use of 3 does not count at the root.
        let lender = queues(Value::Null, json!(1));
        assert_eq!(excess(&lender, &[("a", 7), ("b", 3)]), None);
        assert_eq!(
            excess(&lender, &[("a", 8)]),
            Some(("root".to_owned(), 8, 7))
        );
    }

    #[test]
    fn queue_within_its_kept_part_does_not_depend_on_the_queues_above() {
        let queues = [
            ("root", queue(None, json!({"nominalQuota": 0}))),
            (
                "a",
                queue(Some("root"), json!({"nominalQuota": 4, "lendingLimit": 0})),
            ),
            ("b", queue(Some("root"), json!({"nominalQuota": 4}))),
        ];
        assert_eq!(excess(&queues, &[("a", 4), ("b", 6)]), None);
        assert_eq!(
            excess(&queues, &[("a", 5), ("b", 6)]),
            Some(("root".to_owned(), 7, 4))
        );
    }

    #[test]
    fn quota_beyond_the_greatest_number_is_no_zero() {
        let queues = [("a", queue(None, json!({"nominalQuota": "10Ei"})))];
        assert_eq!(excess(&queues, &[("a", 9)]), None);
    }

    #[test]
    fn cycle_of_queues_is_not_judged() {
        let queues = [
            ("a", queue(Some("b"), json!({}))),
            ("b", queue(Some("a"), json!({}))),
        ];
        assert_eq!(excess(&queues, &[("a", 9)]), None);
    }
}
