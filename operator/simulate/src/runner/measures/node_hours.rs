//! Measures how long nodes exist, how long they are idle, and counts orders of new nodes.

use std::collections::BTreeMap;

use trellis_scheduler::{FlavorName, NodeName, Time};

use crate::summary::NodeSummary;

const MILLIS_PER_HOUR: f64 = 3_600_000.0;

/// The current nodes, and sums since the measurement began, in node milliseconds.
#[derive(Debug, Default)]
pub(in crate::runner) struct NodeHours {
    nodes: u32,
    idle: u32,
    most: u32,
    since: Option<Time>,
    node_millis: u64,
    idle_millis: u64,
    orders: usize,
    failed_orders: usize,
    nodes_bought: usize,
    nodes_arrived: usize,
}

impl NodeHours {
    /// Adds the time since the last call to the sums. The first call starts the measurement.
    pub(in crate::runner) fn advance(&mut self, now: Time) {
        if let Some(since) = self.since.replace(now) {
            let millis = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
            let sum =
                |sum: u64, nodes: u32| sum.saturating_add(millis.saturating_mul(u64::from(nodes)));
            self.node_millis = sum(self.node_millis, self.nodes);
            self.idle_millis = sum(self.idle_millis, self.idle);
        }
    }

    /// Sets the number of nodes, and how many of them have no pods.
    pub(in crate::runner) fn set_nodes(&mut self, nodes: u32, idle: u32) {
        (self.nodes, self.idle) = (nodes, idle);
        self.most = self.most.max(nodes);
    }

    /// Counts an order for a gang.
    pub(in crate::runner) fn add_order(&mut self) {
        self.orders = self.orders.saturating_add(1);
    }

    /// Counts an order whose nodes did not come in time.
    pub(in crate::runner) fn add_failed_order(&mut self) {
        self.failed_orders = self.failed_orders.saturating_add(1);
    }

    /// Counts a node that the autoscaler buys.
    pub(in crate::runner) fn add_bought(&mut self) {
        self.nodes_bought = self.nodes_bought.saturating_add(1);
    }

    /// Counts nodes that have arrived.
    pub(in crate::runner) fn add_arrived(&mut self, nodes: &BTreeMap<FlavorName, Vec<NodeName>>) {
        let nodes = nodes.values().map(Vec::len).sum();
        self.nodes_arrived = self.nodes_arrived.saturating_add(nodes);
    }

    pub(in crate::runner) fn summary(&self) -> NodeSummary {
        let hours = |millis: u64| millis as f64 / MILLIS_PER_HOUR;
        NodeSummary {
            hours: hours(self.node_millis),
            idle_hours: hours(self.idle_millis),
            most: self.most,
            orders: self.orders,
            failed_orders: self.failed_orders,
            bought: self.nodes_bought,
            arrived: self.nodes_arrived,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_idle_nodes_are_summed_over_time() {
        let mut hours = NodeHours::default();
        let at = |minutes: i64| Time::from_millis(minutes * 60_000);
        hours.set_nodes(5, 5);
        hours.advance(at(10));
        hours.advance(at(40));
        hours.set_nodes(2, 1);
        hours.advance(at(100));
        let summary = hours.summary();
        assert_eq!((summary.hours, summary.idle_hours), (4.5, 3.5));
        assert_eq!(summary.most, 5);
    }
}
