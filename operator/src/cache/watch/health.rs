//! Which nodes are lost, by what we have seen ourselves. Pure: the time is an
//! argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A node that is not ready for this long is lost: its pods are planned anew.
pub const LOST_AFTER: Duration = Duration::from_secs(40);
/// The pods of a node that is not ready for this long are given up: nobody is
/// left to stop them.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// How it stands with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It is ready.
    Ready,
    /// It is not ready, for so short that it may come back; or so many are not
    /// that it is we who are cut off.
    Unready,
    /// Its pods are planned anew.
    Lost,
    /// Its pods may be deleted by force.
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Ready,
    /// Since then.
    Unready(Instant),
    /// The Node object was deleted then. Its kubelet may live on and register
    /// it again, so its pods are not given up at once.
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

/// What we have seen of the nodes.
#[derive(Debug)]
pub struct NodeHealth {
    nodes: BTreeMap<String, Node>,
    /// How many of them are not ready, and how many were not deleted: asked
    /// for each node, and for each pod on it.
    down: usize,
    there: usize,
    /// When we began to look. A node that we never saw was gone by then.
    began: Instant,
    /// What was told of nodes that are not ready.
    told: BTreeMap<String, Health>,
    told_of_strangers: bool,
}

/// What is to be told since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Nodes whose health has changed.
    pub nodes: BTreeSet<String>,
    /// The nodes that were never seen are given up now.
    pub strangers: bool,
}

impl NodeHealth {
    /// Nothing is known yet.
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

    /// Takes a node as it is. Says whether that is new.
    pub fn apply(&mut self, node: &str, ready: bool, now: Instant) -> bool {
        let after = match (ready, self.nodes.get(node)) {
            (true, _) => Node::Ready,
            (false, Some(Node::Unready(since) | Node::Deleted(since))) => Node::Unready(*since),
            (false, Some(Node::Ready) | None) => Node::Unready(now),
        };
        self.put(node, after) != Some(after)
    }

    /// Gives what it was before.
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

    /// The Node object is gone.
    pub fn delete(&mut self, node: &str, now: Instant) {
        let since = match self.nodes.get(node) {
            None => return,
            Some(Node::Ready) => now,
            Some(Node::Unready(since) | Node::Deleted(since)) => *since,
        };
        self.put(node, Node::Deleted(since));
    }

    /// True if the node is there, or was until a moment ago.
    #[must_use]
    pub fn knows(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// How it stands with the node.
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

    /// What has changed since this was last asked. Deleted nodes that are
    /// given up are told of once more, and forgotten.
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
        // Deleted ones are in neither count.
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

    /// When there will be news if nothing happens before.
    #[must_use]
    pub fn next_news(&self, now: Instant) -> Option<Instant> {
        let cut_off = self.is_cut_off();
        let of_nodes = self.nodes.values().filter_map(|state| match state {
            Node::Ready => None,
            // What ends this is another node's change.
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

    /// When most of many nodes are down at once, it is we who are cut off: then none is lost.
    fn is_cut_off(&self) -> bool {
        self.down >= 3 && self.down.saturating_mul(2) > self.there
    }
}

#[cfg(test)]
mod tests;
