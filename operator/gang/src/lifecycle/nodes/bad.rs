//! Lost and unhealthy nodes. Each node is checked once, however many pods it has.

use std::collections::{BTreeMap, BTreeSet};

use crate::lifecycle::ObservedJob;

/// The lost and the unhealthy nodes among the nodes of a job.
#[derive(Debug, Default)]
pub(crate) struct BadNodes<'a> {
    lost: BTreeSet<&'a str>,
    /// The reason for each unhealthy node.
    unhealthy: BTreeMap<&'a str, String>,
}

impl<'a> BadNodes<'a> {
    /// Checks these nodes.
    pub(in crate::lifecycle) fn from_nodes(
        nodes: impl IntoIterator<Item = &'a str>,
        o: &ObservedJob<'_>,
    ) -> Self {
        let mut ailing = Self::default();
        for node in nodes {
            if (o.is_lost)(node) {
                ailing.lost.insert(node);
            }
            if let Some(why) = (o.unhealthy_reason)(node) {
                ailing.unhealthy.insert(node, why);
            }
        }
        ailing
    }

    /// Returns true if the node is lost.
    pub(crate) fn is_lost(&self, node: &str) -> bool {
        self.lost.contains(node)
    }

    /// Returns why the node is unhealthy. None if it is healthy or unknown.
    pub(crate) fn unhealthy_reason(&self, node: &str) -> Option<&str> {
        self.unhealthy.get(node).map(String::as_str)
    }
}
