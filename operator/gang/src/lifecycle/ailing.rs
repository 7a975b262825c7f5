//! Lost and unhealthy nodes. Each node is checked once, however many pods it has.

use std::collections::{BTreeMap, BTreeSet};

use super::Observed;

/// The lost and the unhealthy nodes among the nodes of a job.
#[derive(Debug, Default)]
pub(crate) struct AilingNodes<'a> {
    lost: BTreeSet<&'a str>,
    /// The reason for each unhealthy node.
    unhealthy: BTreeMap<&'a str, String>,
}

impl<'a> AilingNodes<'a> {
    /// Checks these nodes.
    pub(super) fn among(nodes: impl IntoIterator<Item = &'a str>, o: &Observed<'_>) -> Self {
        let mut ailing = Self::default();
        for node in nodes {
            if (o.lost)(node) {
                ailing.lost.insert(node);
            }
            if let Some(why) = (o.unhealthy)(node) {
                ailing.unhealthy.insert(node, why);
            }
        }
        ailing
    }

    /// True if the node is lost.
    pub(crate) fn is_lost(&self, node: &str) -> bool {
        self.lost.contains(node)
    }

    /// Why the node is unhealthy. None if it is healthy or unknown.
    pub(crate) fn why_unhealthy(&self, node: &str) -> Option<&str> {
        self.unhealthy.get(node).map(String::as_str)
    }
}
