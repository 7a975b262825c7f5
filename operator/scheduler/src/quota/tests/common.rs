//! Helpers for queues and their usage.
//!
//! A quota is written `nominal`, `nominal+borrowing` or `nominal-lending`, limits in that order:
//! `gpu=10+3-4`; less than 0 is `~1`. A resource has flavor `any` unless one is written before it:
//! `h100/gpu=8`. A queue is `name`, `name < parent`, and what it names after a colon:
//! `a < root: gpu=10+3-4 cpu=64`. A queue without a colon names no quotas at all.

use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorIdx, FlavorResource};
use crate::quota::decay::Decay;
use crate::quota::member::{Member, Quota, Weight};
use crate::quota::order::Next;
use crate::quota::tree::{QueueIdx, Tree};
use crate::state::ResourceIdx;
use crate::time::Time;

const FLAVORS: [&str; 3] = ["any", "a100", "h100"];
const RESOURCES: [&str; 4] = ["pods", "cpu", "memory", "gpu"];

pub fn resource(name: &str) -> ResourceIdx {
    ResourceIdx::of(RESOURCES.iter().position(|r| *r == name).unwrap())
}

pub fn what(name: &str) -> FlavorResource {
    let (flavor, name) = name.split_once('/').unwrap_or(("any", name));
    FlavorResource {
        flavor: FlavorIdx::of(FLAVORS.iter().position(|f| *f == flavor).unwrap()),
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

/// A queue, as written.
pub fn queue(text: &str) -> (QueueName, Member) {
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
            .map(|(of, amounts)| (what(of), quota(amounts)))
            .collect()
    });
    let member = Member {
        parent,
        weight: Weight::default(),
        unusable: None,
        quotas,
    };
    (name(of), member)
}

/// A demand, as `gpu=8 cpu=64`.
pub fn demand(text: &str) -> Demand {
    text.split_whitespace()
        .map(|amount| amount.split_once('=').unwrap())
        .map(|(of, amount)| (what(of), amount.parse().unwrap()))
        .collect()
}

pub fn empty(decay: Decay) -> Tree {
    Tree::new(resource("pods"), decay)
}

/// A tree of these queues.
pub fn tree(queues: &[&str]) -> Tree {
    let mut tree = empty(Decay::default());
    for text in queues {
        tree.put(text);
    }
    tree
}

impl Tree {
    pub fn put(&mut self, text: &str) {
        let (name, member) = queue(text);
        self.apply(&name, member);
    }

    /// Charges, as `a: gpu=8`.
    pub fn take(&mut self, text: &str) {
        let (of, amounts) = text.split_once(": ").unwrap();
        self.charge(&name(of), &demand(amounts));
    }

    pub fn give(&mut self, text: &str) {
        let (of, amounts) = text.split_once(": ").unwrap();
        self.release(&name(of), &demand(amounts));
    }

    pub fn at(&self, of: &str) -> QueueIdx {
        self.find(&name(of)).unwrap()
    }

    pub fn room_of(&self, of: &str, resource: &str) -> Option<i128> {
        self.available(self.at(of), what(resource))
    }

    /// Units charged to a queue itself.
    pub fn charged(&self, queue: QueueIdx, what: FlavorResource) -> i128 {
        let node = self.node(queue);
        node.and_then(|n| n.cells.get(&what)).map_or(0, |c| c.own)
    }

    /// Units of a resource that a queue and all queues below it hold, over all flavors.
    pub fn held(&self, queue: QueueIdx, resource: ResourceIdx) -> i128 {
        let node = self.node(queue);
        node.and_then(|n| n.memory.get(&resource))
            .map_or(0, |memory| memory.held())
    }

    /// How much a queue could get if nothing else were held.
    pub fn could_ever(&self, queue: QueueIdx, what: FlavorResource) -> Option<i128> {
        self.room(queue, what, |_| 0)
    }

    pub fn borrowed_by(&self, of: &str, resource: &str) -> i128 {
        let standings = self.standings(self.at(of));
        let of_what = standings.iter().find(|s| s.what == what(resource));
        of_what.map_or(0, |s| s.borrowed)
    }
}

/// At least this many cases, or as many as `PROPTEST_CASES` says.
pub fn cases(least: u32) -> proptest::test_runner::Config {
    let config = proptest::test_runner::Config::default();
    proptest::test_runner::Config {
        cases: config.cases.max(least),
        max_shrink_iters: 20_000,
        ..config
    }
}

/// The gang that a leaf would start next, submitted this many milliseconds after 0.
pub fn starts(text: &str, submitted: i64) -> Next {
    Next {
        demand: demand(text),
        submitted: ms(submitted),
        ..Next::default()
    }
}
