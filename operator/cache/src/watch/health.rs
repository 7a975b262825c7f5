//! Node health, judged by the conditions that this process has seen. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A node that is not ready for this long is lost: its gangs are placed elsewhere.
pub const LOST_AFTER: Duration = Duration::from_secs(40);
/// A node that is not ready for this long is given up: no kubelet is left to stop its pods.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// Health of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The node is ready.
    Ready,
    /// The node is not ready, but has not been for long, or so many nodes are not ready that this
    /// process is probably cut off from them.
    Unready,
    /// The node's gangs are placed elsewhere.
    Lost,
    /// The node's pods may be deleted by force.
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Ready,
    /// Not ready since then.
    Unready(Instant),
    /// The Node object was deleted then. Its kubelet may still run and register it again, so its
    /// pods are not given up at once.
    Deleted(Instant),
}

impl Node {
    fn is_down(self) -> bool {
        matches!(self, Self::Unready(_))
    }

    fn is_there(self) -> bool {
        !matches!(self, Self::Deleted(_))
    }
}

/// Health of all nodes.
#[derive(Debug)]
pub struct NodeHealth {
    nodes: BTreeMap<String, Node>,
    /// Number of nodes that are not ready, and number of Node objects. Counted here because they
    /// are read for each node and each pod on it.
    down: usize,
    there: usize,
    /// When this process started to watch. A node that was never seen counts as deleted at that
    /// time.
    began: Instant,
    /// Health of the nodes that were not ready at the last [`NodeHealth::news`].
    told: BTreeMap<String, Health>,
    told_of_strangers: bool,
}

/// Changes since the last call of [`NodeHealth::news`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Nodes whose health has changed.
    pub nodes: BTreeSet<String>,
    /// True if nodes that were never seen have just been given up.
    pub strangers: bool,
}

impl NodeHealth {
    /// Without any node.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            nodes: BTreeMap::new(),
            down: 0,
            there: 0,
            began: now,
            told: BTreeMap::new(),
            told_of_strangers: false,
        }
    }

    /// Records whether a node is ready. True if that is a change.
    pub fn apply(&mut self, node: &str, ready: bool, now: Instant) -> bool {
        let after = match (ready, self.nodes.get(node)) {
            (true, _) => Node::Ready,
            (false, Some(Node::Unready(since) | Node::Deleted(since))) => Node::Unready(*since),
            (false, Some(Node::Ready) | None) => Node::Unready(now),
        };
        self.put(node, after) != Some(after)
    }

    /// Stores the state and returns the one before.
    fn put(&mut self, node: &str, after: Node) -> Option<Node> {
        let before = self.nodes.insert(node.to_owned(), after);
        let was = |is: fn(Node) -> bool| usize::from(before.is_some_and(is));
        let is = |is: fn(Node) -> bool| usize::from(is(after));
        self.down =
            (self.down.saturating_add(is(Node::is_down))).saturating_sub(was(Node::is_down));
        self.there =
            (self.there.saturating_add(is(Node::is_there))).saturating_sub(was(Node::is_there));
        before
    }

    /// Records that the Node object was deleted.
    pub fn delete(&mut self, node: &str, now: Instant) {
        let since = match self.nodes.get(node) {
            None => return,
            Some(Node::Ready) => now,
            Some(Node::Unready(since) | Node::Deleted(since)) => *since,
        };
        self.put(node, Node::Deleted(since));
    }

    /// True if the node exists, or was deleted a short time ago.
    #[must_use]
    pub fn knows(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Health of the node.
    #[must_use]
    pub fn of(&self, node: &str, now: Instant) -> Health {
        let gone_for = |since: Instant| {
            if now.saturating_duration_since(since) >= GIVEN_UP_AFTER {
                Health::GivenUp
            } else {
                Health::Lost
            }
        };
        match self.nodes.get(node) {
            None => gone_for(self.began),
            Some(Node::Ready) => Health::Ready,
            Some(Node::Deleted(since)) => gone_for(*since),
            Some(Node::Unready(since)) => {
                let short = now.saturating_duration_since(*since) < LOST_AFTER;
                if short || self.is_cut_off() {
                    Health::Unready
                } else {
                    gone_for(*since)
                }
            }
        }
    }

    /// Changes since the last call. A deleted node is reported once more when it is given up, and
    /// then forgotten.
    pub fn news(&mut self, now: Instant) -> News {
        let health: BTreeMap<String, Health> = self
            .nodes
            .keys()
            .map(|node| (node.clone(), self.of(node, now)))
            .filter(|(_, health)| *health != Health::Ready)
            .collect();
        let well_again = self.told.keys().filter(|n| !health.contains_key(*n));
        let changed = health
            .iter()
            .filter(|(node, health)| self.told.get(*node) != Some(health))
            .map(|(node, _)| node);
        let nodes = well_again.chain(changed).cloned().collect();
        self.told = health;
        let told = &mut self.told;
        // Deleted nodes are in neither count.
        self.nodes.retain(|node, state| {
            let over =
                matches!(state, Node::Deleted(_)) && told.get(node) == Some(&Health::GivenUp);
            if over {
                told.remove(node);
            }
            !over
        });
        let given_up = now.saturating_duration_since(self.began) >= GIVEN_UP_AFTER;
        let strangers = given_up && !self.told_of_strangers;
        self.told_of_strangers = given_up;
        News { nodes, strangers }
    }

    /// When health changes next if no event comes before.
    #[must_use]
    pub fn next_news(&self, now: Instant) -> Option<Instant> {
        let cut_off = self.is_cut_off();
        let of_nodes = self.nodes.values().filter_map(|state| match state {
            Node::Ready => None,
            // Only a change of another node ends this state.
            Node::Unready(_) if cut_off => None,
            Node::Unready(since) | Node::Deleted(since) => Some(*since),
        });
        of_nodes
            .flat_map(|since| [LOST_AFTER, GIVEN_UP_AFTER].map(|after| since.checked_add(after)))
            .chain([self.began.checked_add(GIVEN_UP_AFTER)])
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    /// True if most of many nodes are not ready at once: then this process is probably cut off, and
    /// no node is lost.
    fn is_cut_off(&self) -> bool {
        self.down >= 3 && self.down.saturating_mul(2) > self.there
    }
}

#[cfg(test)]
mod tests;
