//! The arithmetic of quotas in a tree of queues, from Kueue's hierarchical cohorts (KEP-79).
//!
//! A queue keeps the part of its quota that it does not lend. The rest belongs to its parent, and
//! its use beyond the kept part counts at the parent.

use std::collections::BTreeMap;

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

/// A queue of the tree.
struct Queue<'a> {
    spec: &'a QueueSpec,
    parent: Option<&'a str>,
    /// Number of queues above it.
    depth: usize,
}

/// The queues whose ancestors exist and form no cycle. Trellis starts no job in another queue.
pub(crate) struct QuotaTree<'a> {
    queues: BTreeMap<&'a str, Queue<'a>>,
    /// The names of all queues, each before its parent.
    bottom_up: Vec<&'a str>,
}

/// Amounts of one resource in one flavor, of a queue and of the queues below it.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    own: Quota,
    /// The quota of the queue, with what the queues below it lend.
    quota: i64,
    /// The usage of the queue, with what the queues below it use beyond their kept parts.
    used: i64,
}

impl Totals {
    /// Returns the part of its quota that the queue does not lend.
    fn kept(self) -> i64 {
        match self.own.lending_limit {
            None => 0,
            Some(limit) => self.quota.saturating_sub(limit).max(0),
        }
    }

    /// Returns what the queue may use. None: its own quota sets no bound.
    fn allowed(self, has_parent: bool) -> Option<i64> {
        if !has_parent {
            return Some(self.quota);
        }
        let limit = self.own.borrowing_limit?;
        Some(self.quota.saturating_add(limit))
    }
}

impl<'a> QuotaTree<'a> {
    pub(crate) fn new(all: impl Iterator<Item = (&'a str, &'a QueueSpec)>) -> Self {
        let specs: BTreeMap<&str, &QueueSpec> = all.collect();
        let mut queues = BTreeMap::new();
        for (name, spec) in &specs {
            if let Some(depth) = find_depth(&specs, spec) {
                let parent = spec.parent_name.as_deref();
                let queue = Queue {
                    spec,
                    parent,
                    depth,
                };
                queues.insert(*name, queue);
            }
        }
        let mut by_depth: Vec<(usize, &str)> = queues
            .iter()
            .map(|(name, queue)| (queue.depth, *name))
            .collect();
        by_depth.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            queues,
            bottom_up: by_depth.into_iter().map(|(_, name)| name).collect(),
        }
    }

    /// Returns the queue or the lowest queue above it that uses more than it may. None also for a
    /// queue that has a cycle or a missing queue above it.
    pub(crate) fn find_excess(
        &self,
        queue: &str,
        wanted: &FlavorResource,
        usage: &Usage,
    ) -> Option<Excess> {
        let totals = self.sum(wanted, usage);
        let mut next = self.queues.get_key_value(queue);
        // INVARIANT: the loop ends, because the tree has no cycle.
        while let Some((name, queue)) = next {
            let total = totals.get(name).copied()?;
            if let Some(allowed) = total.allowed(queue.parent.is_some())
                && total.used > allowed
            {
                return Some(Excess {
                    queue: (*name).to_owned(),
                    used: total.used,
                    allowed,
                });
            }
            // The queues above see only what exceeds the kept part.
            if total.used <= total.kept() {
                return None;
            }
            next = self.queues.get_key_value(queue.parent?);
        }
        None
    }

    /// Sums the amounts of all queues, from the lowest to the highest.
    fn sum(&self, wanted: &FlavorResource, usage: &Usage) -> BTreeMap<&'a str, Totals> {
        let mut used: BTreeMap<&str, i64> = BTreeMap::new();
        for ((queue, resource), amount) in usage {
            if resource == wanted {
                used.insert(queue, *amount);
            }
        }
        let mut totals: BTreeMap<&str, Totals> = BTreeMap::new();
        for name in &self.bottom_up {
            let Some(queue) = self.queues.get(name) else {
                continue;
            };
            let own = find_quota(queue.spec, wanted).unwrap_or_default();
            // The queues below have added their part already.
            let total = totals.entry(name).or_default();
            total.own = own;
            total.quota = total.quota.saturating_add(own.nominal);
            total.used = total
                .used
                .saturating_add(used.get(name).copied().unwrap_or(0));
            let total = *total;
            if let Some(parent) = queue.parent {
                let above = totals.entry(parent).or_default();
                let lent = total.quota.saturating_sub(total.kept());
                above.quota = above.quota.saturating_add(lent);
                let beyond = total.used.saturating_sub(total.kept()).max(0);
                above.used = above.used.saturating_add(beyond);
            }
        }
        totals
    }
}

/// Returns the number of queues above a queue. None if one is missing or if they form a cycle.
fn find_depth(specs: &BTreeMap<&str, &QueueSpec>, spec: &QueueSpec) -> Option<usize> {
    let mut depth: usize = 0;
    let mut spec = spec;
    while let Some(parent) = spec.parent_name.as_deref() {
        depth = depth.checked_add(1)?;
        if depth > specs.len() {
            return None;
        }
        spec = specs.get(parent)?;
    }
    Some(depth)
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
#[allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]
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
        let excess = QuotaTree::new(specs).find_excess("a", &gpu(), &usage)?;
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
        let below_a_cycle = [
            ("a", queue(Some("b"), json!({}))),
            ("b", queue(Some("c"), json!({}))),
            ("c", queue(Some("b"), json!({}))),
        ];
        assert_eq!(excess(&below_a_cycle, &[("a", 9)]), None);
    }

    #[test]
    fn deep_tree_is_judged_in_time() {
        // The names are borrowed by the queues.
        let names: Vec<String> = (0..200).map(|depth| format!("q{depth}")).collect();
        let limits = json!({"nominalQuota": 1, "lendingLimit": 1000});
        let mut queues = vec![("a", queue(Some("q0"), limits.clone()))];
        for (depth, name) in names.iter().enumerate() {
            let parent = names.get(depth + 1).map(String::as_str);
            queues.push((name, queue(parent, limits.clone())));
        }
        assert_eq!(excess(&queues, &[("a", 201)]), None);
        let root = "q199".to_owned();
        assert_eq!(excess(&queues, &[("a", 202)]), Some((root, 202, 201)));
    }
}
