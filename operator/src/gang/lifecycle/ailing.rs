//! Nodes that something is wrong with. Each is asked about once, however many pods are on it.

use std::collections::{BTreeMap, BTreeSet};

use super::Observed;

/// Those of some nodes that are lost, or unhealthy.
#[derive(Debug, Default)]
pub(crate) struct Ailing<'a> {
    lost: BTreeSet<&'a str>,
    /// Why they are unhealthy.
    unhealthy: BTreeMap<&'a str, String>,
}

impl<'a> Ailing<'a> {
    /// Those of these nodes.
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

    /// Why the node is unhealthy. None: it is well, or not known.
    pub(crate) fn why_unhealthy(&self, node: &str) -> Option<&str> {
        self.unhealthy.get(node).map(String::as_str)
    }
}
