//! Helpers for queues and their usage.
//!
//! The text of a quota is `nominal`, `nominal+borrowing` or `nominal-lending`, with both limits in
//! this order: `gpu=10+3-4`. A negative amount is `~1`. A resource has flavor `any` unless the text
//! has a flavor before it: `h100/gpu=8`. The text of a queue is `name` or `name < parent`, and its
//! quotas after a colon: `a < root: gpu=10+3-4 cpu=64`. A queue without a colon names no quotas at
//! all.

use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorIdx, FlavorResource};
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::fair_share::turn_order::NextGang;
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::{QueueConfig, Quota, Weight};
use crate::state::{QueueIdx, ResourceIdx};
use crate::time::Time;

const FLAVORS: [&str; 3] = ["any", "a100", "h100"];
const RESOURCES: [&str; 4] = ["pods", "cpu", "memory", "gpu"];

pub fn resource(name: &str) -> ResourceIdx {
    ResourceIdx::of(RESOURCES.iter().position(|r| *r == name).unwrap())
}

pub fn flavor_resource(name: &str) -> FlavorResource {
    let (flavor, name) = name.split_once('/').unwrap_or(("any", name));
    FlavorResource {
        flavor: FlavorIdx::from_index(FLAVORS.iter().position(|f| *f == flavor).unwrap()),
        resource: resource(name),
    }
}

pub fn name(name: &str) -> QueueName {
    QueueName::new(name)
}

pub fn ms(millis: i64) -> Time {
    Time::from_millis(millis)
}

fn number(text: &str) -> i64 {
    text.replace('~', "-").parse().unwrap()
}

fn quota(text: &str) -> Quota {
    let (text, lending) = match text.split_once('-') {
        Some((text, lending)) => (text, Some(lending)),
        None => (text, None),
    };
    let (nominal, borrowing) = match text.split_once('+') {
        Some((nominal, borrowing)) => (nominal, Some(borrowing)),
        None => (text, None),
    };
    Quota {
        nominal: number(nominal),
        borrowing_limit: borrowing.map(number),
        lending_limit: lending.map(number),
    }
}

/// Parses a queue from its text.
pub fn queue(text: &str) -> (QueueName, QueueConfig) {
    let (head, quotas) = match text.split_once(':') {
        Some((head, quotas)) => (head, Some(quotas)),
        None => (text, None),
    };
    let (of, parent) = match head.split_once(" < ") {
        Some((of, parent)) => (of, Some(name(parent))),
        None => (head, None),
    };
    let quotas = quotas.map(|quotas| {
        let each = quotas.split_whitespace();
        each.map(|q| q.split_once('=').unwrap())
            .map(|(of, amounts)| (flavor_resource(of), quota(amounts)))
            .collect()
    });
    let member = QueueConfig {
        parent,
        weight: Weight::default(),
        priority: 0,
        group_fault: None,
        quotas,
    };
    (name(of), member)
}

/// Parses a demand from text: `gpu=8 cpu=64`.
pub fn demand(text: &str) -> Demand {
    text.split_whitespace()
        .map(|amount| amount.split_once('=').unwrap())
        .map(|(of, amount)| (flavor_resource(of), amount.parse().unwrap()))
        .collect()
}

pub fn empty(decay: UsageDecay) -> QuotaTree {
    QuotaTree::new(resource("pods"), decay)
}

/// Returns a tree of these queues.
pub fn tree(queues: &[&str]) -> QuotaTree {
    let mut tree = empty(UsageDecay::default());
    for text in queues {
        tree.apply_queue(text);
    }
    tree
}

impl QuotaTree {
    pub fn apply_queue(&mut self, text: &str) {
        let (name, member) = queue(text);
        self.apply(&name, member);
    }

    /// Charges a queue, given as text: `a: gpu=8`.
    pub fn charge_queue(&mut self, text: &str) {
        let (of, amounts) = text.split_once(": ").unwrap();
        self.charge(&name(of), &demand(amounts));
    }

    pub fn release_queue(&mut self, text: &str) {
        let (of, amounts) = text.split_once(": ").unwrap();
        self.release(&name(of), &demand(amounts));
    }

    pub fn queue_idx(&self, of: &str) -> QueueIdx {
        self.find(&name(of)).unwrap()
    }

    pub fn available_to(&self, of: &str, resource: &str) -> Option<i128> {
        self.available(self.queue_idx(of), flavor_resource(resource))
    }

    /// Returns the units charged to a queue itself.
    pub fn own_usage_of(&self, queue: QueueIdx, what: FlavorResource) -> i128 {
        let node = self.node(queue);
        node.and_then(|n| n.cells.get(&what)).map_or(0, |c| c.own)
    }

    /// Returns the units of a resource that a queue and all queues below it hold, over all flavors.
    pub fn subtree_usage(&self, queue: QueueIdx, resource: ResourceIdx) -> i128 {
        let node = self.node(queue);
        node.and_then(|n| n.memory.get(&resource))
            .map_or(0, |memory| memory.current())
    }

    /// Returns how much a queue could get without any usage.
    pub fn available_when_empty(&self, queue: QueueIdx, what: FlavorResource) -> Option<i128> {
        self.compute_available(queue, what, |_| 0)
    }

    pub fn borrowed_amount(&self, of: &str, resource: &str) -> i128 {
        let standings = self.quota_usages(self.queue_idx(of));
        let of_what = standings
            .iter()
            .find(|s| s.flavor_resource == flavor_resource(resource));
        of_what.map_or(0, |s| s.borrowed)
    }
}

/// Runs `usual` cases if `PROPTEST_CASES` is 256, proptest's default. Other values change the
/// number in proportion.
pub fn cases(usual: u32) -> proptest::test_runner::Config {
    let config = proptest::test_runner::Config::default();
    proptest::test_runner::Config {
        cases: (usual * config.cases / 256).max(1),
        max_shrink_iters: 20_000,
        ..config
    }
}

/// Returns the gang that a leaf would start next, with a submission this many milliseconds after 0.
pub fn next_gang(text: &str, submitted: i64) -> NextGang {
    NextGang {
        demand: demand(text),
        submitted: ms(submitted),
        ..NextGang::default()
    }
}
