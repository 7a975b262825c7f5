//! A second implementation of the tree. It computes every answer anew from the rules.

use std::collections::{BTreeMap, BTreeSet};

use super::common::{demand, empty, name, resource};
use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorResource};
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::{QueueConfig, Quota};
use crate::quota::tree::queue_fault::MAX_DEPTH;

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub queues: BTreeMap<QueueName, QueueConfig>,
    pub charged: BTreeMap<QueueName, BTreeMap<FlavorResource, i128>>,
}

impl Oracle {
    /// Returns a tree that is built from the same queues and charges, in reverse order.
    pub fn rebuilt(&self) -> QuotaTree {
        let mut tree = empty(UsageDecay::default());
        for (of, charged) in &self.charged {
            let demand: Demand = charged.iter().map(|(w, n)| (*w, *n)).collect();
            tree.charge(of, &demand);
        }
        for (of, member) in self.queues.iter().rev() {
            tree.apply(of, member.clone());
        }
        tree
    }

    pub fn charge(&mut self, of: &QueueName, demand: &Demand) {
        for (what, amount) in demand.iter() {
            *self
                .charged
                .entry(of.clone())
                .or_default()
                .entry(what)
                .or_default() += amount;
        }
    }

    pub fn release(&mut self, of: &QueueName, demand: &Demand) {
        for (what, amount) in demand.iter() {
            if let Some(charged) = self.charged.get_mut(of).and_then(|c| c.get_mut(&what)) {
                *charged = (*charged - amount).max(0);
            }
        }
    }

    /// Returns the path from a queue up to its root. None: the queue is misconfigured.
    pub fn path(&self, of: &QueueName) -> Option<Vec<QueueName>> {
        let mut path = vec![of.clone()];
        let mut seen = BTreeSet::from([of.clone()]);
        loop {
            let member = self.queues.get(path.last()?)?;
            let mut amounts = member
                .quotas
                .iter()
                .flatten()
                .flat_map(|(_, q)| [Some(q.nominal), q.borrowing_limit, q.lending_limit]);
            if amounts.any(|a| a.is_some_and(|a| a < 0)) {
                return None;
            }
            let Some(parent) = &member.parent else {
                return (path.len() <= MAX_DEPTH).then_some(path);
            };
            if !seen.insert(parent.clone()) {
                return None;
            }
            path.push(parent.clone());
        }
    }

    fn children(&self, of: &QueueName) -> impl Iterator<Item = &QueueName> {
        let below = |(_, m): &(&QueueName, &QueueConfig)| m.parent.as_ref() == Some(of);
        let all = self.queues.iter().filter(below).map(|(child, _)| child);
        all.filter(|child| self.path(child).is_some())
    }

    fn quota(&self, of: &QueueName, what: FlavorResource) -> Quota {
        let quotas = self.queues[of].quotas.as_ref();
        quotas
            .and_then(|q| q.get(&what))
            .copied()
            .unwrap_or_default()
    }

    pub fn own_usage(&self, of: &QueueName, what: FlavorResource) -> i128 {
        let charged = self.charged.get(of).and_then(|c| c.get(&what));
        charged.copied().unwrap_or(0)
    }

    pub fn subtree(&self, of: &QueueName, what: FlavorResource) -> i128 {
        let lent = |child| self.subtree(child, what) - self.local(child, what);
        i128::from(self.quota(of, what).nominal) + self.children(of).map(lent).sum::<i128>()
    }

    pub fn local(&self, of: &QueueName, what: FlavorResource) -> i128 {
        let limit = self.quota(of, what).lending_limit;
        limit.map_or(0, |limit| {
            (self.subtree(of, what) - i128::from(limit)).max(0)
        })
    }

    pub fn usage(&self, of: &QueueName, what: FlavorResource) -> i128 {
        let passed = |child| (self.usage(child, what) - self.local(child, what)).max(0);
        let quotas = &self.queues[of].quotas;
        let unnamed = quotas.as_ref().is_some_and(|q| !q.contains_key(&what));
        let exempt = what.resource == resource("pods") && unnamed;
        let own = if exempt { 0 } else { self.own_usage(of, what) };
        own + self.children(of).map(passed).sum::<i128>()
    }

    fn available_by_formula(&self, path: &[QueueName], what: FlavorResource) -> i128 {
        let of = &path[0];
        let (subtree, usage) = (self.subtree(of, what), self.usage(of, what));
        if path.len() == 1 {
            return subtree - usage;
        }
        let local = self.local(of, what);
        let mut second = self.available_by_formula(&path[1..], what);
        if let Some(limit) = self.quota(of, what).borrowing_limit {
            second = second.min((subtree - local) - (usage - local).max(0) + i128::from(limit));
        }
        if usage <= local {
            second = second.max(0);
        }
        (local - usage).max(0) + second
    }

    pub fn all_below(&self, of: &QueueName) -> Vec<QueueName> {
        let below = self.children(of).flat_map(|child| self.all_below(child));
        std::iter::once(of.clone()).chain(below).collect()
    }

    fn names_any(&self, of: &QueueName, mut is: impl FnMut(&FlavorResource) -> bool) -> bool {
        let mut quotas = self.queues[of].quotas.iter().flatten();
        quotas.any(|(what, _)| is(what))
    }

    pub fn available(&self, of: &QueueName, what: FlavorResource) -> Option<i128> {
        let Some(path) = self.path(of) else {
            return Some(0);
        };
        let unnamed = (what.resource != resource("pods")).then_some(0);
        let tree = self.all_below(path.last().unwrap());
        if self.queues[of].quotas.is_some() {
            if !self.names_any(of, |w| *w == what) {
                return unnamed;
            }
        } else if tree.iter().all(|q| self.queues[q].quotas.is_none()) {
            return None;
        } else if !tree.iter().any(|q| self.names_any(q, |w| *w == what)) {
            return unnamed;
        }
        Some(self.available_by_formula(&path, what))
    }

    /// Returns true if the quota that a queue names, or may borrow, is limited.
    fn has_quota(&self, of: &QueueName, what: FlavorResource) -> bool {
        let Some(path) = self.path(of) else {
            return false;
        };
        let named = |q: &QueueName| self.names_any(q, |w| *w == what);
        match self.queues[of].quotas {
            Some(_) => named(of),
            None => self.all_below(path.last().unwrap()).iter().any(named),
        }
    }

    fn borrowed(&self, of: &QueueName, what: FlavorResource) -> i128 {
        (self.usage(of, what) - self.subtree(of, what)).max(0)
    }

    /// Returns the claim on a queue: true if it is owed, and the amount to reclaim.
    pub fn claim(
        &self,
        asker: &QueueName,
        demand: &Demand,
        holder: &QueueName,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<(bool, i128)> {
        let (from, to) = (self.path(asker)?, self.path(holder)?);
        let asks: Vec<(FlavorResource, i128)> = demand
            .iter()
            .filter(|(what, _)| self.has_quota(asker, *what) && lacks(*what))
            .collect();
        let within = |of: &QueueName, rest: &[(FlavorResource, i128)]| {
            let fits = |(what, need): &(FlavorResource, i128)| {
                self.usage(of, *what) + need <= self.subtree(of, *what)
            };
            rest.iter().all(fits)
        };
        let Some(common) = to.iter().find(|of| from.contains(of)) else {
            // Without a shared root, only a queue without any limit owes quota that other queues
            // own.
            let pods = |what: &FlavorResource| what.resource == resource("pods");
            let own = asks.iter().any(|(what, _)| !pods(what)) && within(asker, &asks);
            let mut kinds = demand
                .iter()
                .map(|(what, _)| what)
                .filter(|what| !pods(what));
            let open = kinds.any(|what| lacks(what) && self.available(holder, what).is_none());
            return (own && open).then_some((true, i128::MAX));
        };
        let below = |path: &[QueueName]| -> Vec<QueueName> {
            let below = path.iter().take_while(|of| *of != common);
            below.cloned().collect()
        };
        let left = |what: FlavorResource| {
            let chain = below(&to);
            let own = match &self.queues[holder].quotas {
                Some(named) if what.resource == resource("pods") && !named.contains_key(&what) => 0,
                _ => self.own_usage(holder, what),
            };
            let chain = chain.iter().map(|of| self.borrowed(of, what));
            chain.fold(own, i128::min)
        };
        let kinds = demand.iter().map(|(what, _)| what);
        let wanted = kinds.filter(|what| lacks(*what) && self.available(holder, *what).is_some());
        let most = wanted.map(left).max().filter(|most| *most > 0)?;
        let mut rest = asks;
        let owed = below(&from).iter().any(|of| {
            let fits = within(of, &rest);
            for (what, need) in &mut rest {
                let spare = (self.local(of, *what) - self.usage(of, *what)).max(0);
                *need = (*need - spare).max(0);
            }
            fits
        });
        Some((owed, most))
    }
}

#[test]
fn oracle_computes_the_worked_example() {
    let mut oracle = Oracle::default();
    for text in ["root", "a < root: gpu=10+3-4", "b < root: gpu=6"] {
        let (of, member) = super::common::queue(text);
        oracle.queues.insert(of, member);
    }
    oracle.charge(&name("a"), &demand("gpu=8"));
    oracle.charge(&name("b"), &demand("gpu=5"));
    let gpu = super::common::flavor_resource("gpu");
    let root = name("root");
    assert_eq!(
        (oracle.subtree(&root, gpu), oracle.usage(&root, gpu)),
        (10, 7)
    );
    assert_eq!(oracle.available(&name("a"), gpu), Some(3));
    assert_eq!(oracle.available(&name("b"), gpu), Some(3));
}
