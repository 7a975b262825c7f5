//! Node health, judged by the conditions that this process has seen. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A node that is not ready for this long is lost: the engine places its gangs elsewhere.
pub const LOST_AFTER: Duration = Duration::from_secs(40);
/// A node that is not ready for this long is abandoned: no kubelet is left to stop its pods.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Health of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The node is ready.
    Ready,
    /// The node has been not ready for a short time only. Or so many nodes are not ready that this
    /// process is probably cut off from them.
    Unready,
    /// The engine places the node's gangs elsewhere.
    Lost,
    /// Trellis may delete the node's pods by force.
    Abandoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeReadiness {
    Ready,
    /// Not ready since this time.
    Unready(Instant),
    /// The Node object was deleted at this time. Its kubelet may still run and register the node
    /// again, so its pods are not given up at once.
    Deleted(Instant),
}

impl NodeReadiness {
    fn is_down(self) -> bool {
        matches!(self, Self::Unready(_))
    }

    fn is_present(self) -> bool {
        !matches!(self, Self::Deleted(_))
    }
}

/// Health of all nodes.
#[derive(Debug)]
pub struct NodeHealth {
    nodes: BTreeMap<String, NodeReadiness>,
    /// Number of nodes that are not ready, and number of Node objects. They are kept here because
    /// they are read for each node and each pod on it.
    down_count: usize,
    present_count: usize,
    /// When this process started to watch. A node that was never seen counts as deleted at that
    /// time.
    watching_since: Instant,
    /// Health of the nodes that were not ready at the last [`NodeHealth::take_changes`].
    reported: BTreeMap<String, Health>,
    reported_unknown_nodes: bool,
}

/// Changes since the last call of [`NodeHealth::take_changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthChanges {
    /// Nodes whose health has changed.
    pub nodes: BTreeSet<String>,
    /// True if nodes that were never seen have just been abandoned.
    pub unknown_nodes_abandoned: bool,
}

impl NodeHealth {
    /// Creates the health of no nodes.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            nodes: BTreeMap::new(),
            down_count: 0,
            present_count: 0,
            watching_since: now,
            reported: BTreeMap::new(),
            reported_unknown_nodes: false,
        }
    }

    /// Records whether a node is ready. Returns true if that is a change.
    pub fn apply(&mut self, node: &str, ready: bool, now: Instant) -> bool {
        let after = match (ready, self.nodes.get(node)) {
            (true, _) => NodeReadiness::Ready,
            (false, Some(NodeReadiness::Unready(since) | NodeReadiness::Deleted(since))) => {
                NodeReadiness::Unready(*since)
            }
            (false, Some(NodeReadiness::Ready) | None) => NodeReadiness::Unready(now),
        };
        self.replace_state(node, after) != Some(after)
    }

    /// Stores the state and returns the one before.
    fn replace_state(&mut self, node: &str, after: NodeReadiness) -> Option<NodeReadiness> {
        let before = self.nodes.insert(node.to_owned(), after);
        let was = |is: fn(NodeReadiness) -> bool| usize::from(before.is_some_and(is));
        let is = |is: fn(NodeReadiness) -> bool| usize::from(is(after));
        self.down_count = (self.down_count.saturating_add(is(NodeReadiness::is_down)))
            .saturating_sub(was(NodeReadiness::is_down));
        self.present_count = (self
            .present_count
            .saturating_add(is(NodeReadiness::is_present)))
        .saturating_sub(was(NodeReadiness::is_present));
        before
    }

    /// Records that the Node object was deleted.
    pub fn delete(&mut self, node: &str, now: Instant) {
        let since = match self.nodes.get(node) {
            None => return,
            Some(NodeReadiness::Ready) => now,
            Some(NodeReadiness::Unready(since) | NodeReadiness::Deleted(since)) => *since,
        };
        self.replace_state(node, NodeReadiness::Deleted(since));
    }

    /// Returns true if the node exists, or was deleted a short time ago.
    #[must_use]
    pub fn contains(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Returns the health of the node.
    #[must_use]
    pub(crate) fn health_of(&self, node: &str, now: Instant) -> Health {
        let gone_for = |since: Instant| {
            if now.saturating_duration_since(since) >= ABANDONED_AFTER {
                Health::Abandoned
            } else {
                Health::Lost
            }
        };
        match self.nodes.get(node) {
            None => gone_for(self.watching_since),
            Some(NodeReadiness::Ready) => Health::Ready,
            Some(NodeReadiness::Deleted(since)) => gone_for(*since),
            Some(NodeReadiness::Unready(since)) => {
                let short = now.saturating_duration_since(*since) < LOST_AFTER;
                if short || self.is_cut_off() {
                    Health::Unready
                } else {
                    gone_for(*since)
                }
            }
        }
    }

    /// Returns the changes since the last call. Reports a deleted node once more when it is
    /// abandoned, and then forgets it.
    pub fn take_changes(&mut self, now: Instant) -> HealthChanges {
        let health: BTreeMap<String, Health> = self
            .nodes
            .keys()
            .map(|node| (node.clone(), self.health_of(node, now)))
            .filter(|(_, health)| *health != Health::Ready)
            .collect();
        let well_again = self.reported.keys().filter(|n| !health.contains_key(*n));
        let changed = health
            .iter()
            .filter(|(node, health)| self.reported.get(*node) != Some(health))
            .map(|(node, _)| node);
        let nodes = well_again.chain(changed).cloned().collect();
        self.reported = health;
        let reported = &mut self.reported;
        // Deleted nodes are in neither count.
        self.nodes.retain(|node, state| {
            let over = matches!(state, NodeReadiness::Deleted(_))
                && reported.get(node) == Some(&Health::Abandoned);
            if over {
                reported.remove(node);
            }
            !over
        });
        let given_up = now.saturating_duration_since(self.watching_since) >= ABANDONED_AFTER;
        let strangers = given_up && !self.reported_unknown_nodes;
        self.reported_unknown_nodes = given_up;
        HealthChanges {
            nodes,
            unknown_nodes_abandoned: strangers,
        }
    }

    /// Returns when health changes next if no event comes before.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let cut_off = self.is_cut_off();
        let of_nodes = self.nodes.values().filter_map(|state| match state {
            NodeReadiness::Ready => None,
            // Only a change of another node ends this state.
            NodeReadiness::Unready(_) if cut_off => None,
            NodeReadiness::Unready(since) | NodeReadiness::Deleted(since) => Some(*since),
        });
        of_nodes
            .flat_map(|since| [LOST_AFTER, ABANDONED_AFTER].map(|after| since.checked_add(after)))
            .chain([self.watching_since.checked_add(ABANDONED_AFTER)])
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    /// Returns true if most of many nodes are not ready at once: then this process is probably cut
    /// off, and no node is lost.
    fn is_cut_off(&self) -> bool {
        self.down_count >= 3 && self.down_count.saturating_mul(2) > self.present_count
    }
}

#[cfg(test)]
mod tests;
