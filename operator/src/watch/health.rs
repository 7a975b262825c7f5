//! Which nodes are lost, by what we have seen ourselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

/// A node that is not ready for this long is lost: its pods are planned anew.
pub const LOST_AFTER: Duration = Duration::from_secs(40);
/// The pods of a node that is not ready for this long are given up: nobody is
/// left to stop them.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// Nodes that are not ready, and since when.
#[derive(Debug, Default)]
pub struct NodeHealth {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Every node that there is; when it stopped being ready.
    nodes: BTreeMap<String, Option<Instant>>,
}

impl NodeHealth {
    /// Takes a node as it is. Says whether its readiness changed.
    pub fn apply(&self, node: &str, ready: bool) -> bool {
        let mut inner = self.inner.write();
        let before = inner.nodes.get(node).copied();
        let since = match (ready, before.flatten()) {
            (true, _) => None,
            (false, Some(since)) => Some(since),
            (false, None) => Some(Instant::now()),
        };
        inner.nodes.insert(node.to_owned(), since);
        before.is_none_or(|b| b.is_some() == ready)
    }

    /// The node is gone.
    pub fn delete(&self, node: &str) {
        self.inner.write().nodes.remove(node);
    }

    /// True if the node is gone, or has not been ready for so long. When most
    /// of many nodes are down at once, it is we who are cut off: then none is lost.
    #[must_use]
    pub fn is_lost(&self, node: &str, after: Duration) -> bool {
        let inner = self.inner.read();
        match inner.nodes.get(node) {
            None => true,
            Some(None) => false,
            Some(Some(since)) => since.elapsed() >= after && !inner.cut_off(),
        }
    }
}

impl Inner {
    fn cut_off(&self) -> bool {
        let down = self.nodes.values().flatten().count();
        down >= 3 && down.saturating_mul(2) > self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_lost_when_it_is_gone_or_long_unready() {
        let health = NodeHealth::default();
        assert!(health.apply("a", true));
        assert!(health.apply("b", true));
        assert!(!health.apply("b", true));
        assert!(!health.is_lost("a", Duration::ZERO));
        assert!(health.apply("a", false));
        assert!(health.is_lost("a", Duration::ZERO));
        assert!(!health.is_lost("a", LOST_AFTER));
        assert!(health.is_lost("never-seen", LOST_AFTER));
        assert!(health.apply("a", true));
        assert!(!health.is_lost("a", Duration::ZERO));
    }

    #[test]
    fn when_most_nodes_are_down_none_is_lost() {
        let health = NodeHealth::default();
        for node in ["a", "b", "c", "d"] {
            health.apply(node, node == "d");
        }
        assert!(!health.is_lost("a", Duration::ZERO));
        health.apply("a", true);
        assert!(health.is_lost("b", Duration::ZERO));
    }
}
