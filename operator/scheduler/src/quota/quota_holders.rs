//! The queues that hold a resource that another queue lacks.

use std::cmp::Reverse;

use super::amounts::FlavorResource;
use super::tree::QuotaTree;
use crate::ids::QueueName;
use crate::state::QueueIdx;

impl QuotaTree {
    /// Returns the queues from `below` down whose usage counts against the quota of `below`, each
    /// with its own usage. The result has at most `count` queues: those that hold most, then by
    /// name. It leaves out `but`.
    ///
    /// Visits each queue below that holds some. The engine therefore calls it only for gangs whose
    /// explanation it reports.
    pub(crate) fn quota_holders(
        &self,
        below: &QueueName,
        what: FlavorResource,
        but: &QueueName,
        count: usize,
    ) -> Vec<(QueueName, i128)> {
        let mut holding: Vec<(&QueueName, i128)> = Vec::new();
        let mut next: Vec<QueueIdx> = self.find(below).into_iter().collect();
        while let Some(node) = next.pop().and_then(|at| self.node(at)) {
            let held = node.cell(what).counted_own();
            if held > 0 && node.name != *but {
                holding.push((&node.name, held));
            }
            // Usage that local quota covers does not count above the child.
            next.extend(node.named_by.iter().copied().filter(|at| {
                let child = self.node(*at).filter(|child| child.is_counted());
                child.is_some_and(|child| child.cell(what).passed_on() > 0)
            }));
        }
        holding.sort_unstable_by_key(|(name, held)| (Reverse(*held), *name));
        let first = holding.into_iter().take(count);
        first.map(|(name, held)| (name.clone(), held)).collect()
    }
}
