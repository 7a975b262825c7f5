//! How many orders of new nodes a run had, and how they ended.

use std::fmt;
use std::ops::AddAssign;

use serde_json::Value;

/// Numbers of orders of new nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Orders in journals.
    pub made: u64,
    /// Orders that ended with a plan of the gang.
    pub used: u64,
    /// Orders that ended without a plan.
    pub ended: u64,
    /// Orders that were open when a new leader began its term.
    pub inherited: u64,
    /// Nodes that the autoscaler bought.
    pub nodes: u64,
}

impl OrderCounts {
    /// Counts a change of a PodGroup.
    pub(crate) fn observe(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let order = |group: Option<&Value>| group.and_then(order_of).map(str::to_owned);
        let (earlier, later) = (order(before), order(after));
        if earlier == later {
            return;
        }
        self.made += u64::from(later.is_some());
        if earlier.is_some() {
            let has_plan = after.is_some_and(|group| !group["status"]["plan"].is_null());
            match has_plan {
                true => self.used += 1,
                false => self.ended += 1,
            }
        }
    }
}

/// Returns the hash of the order in the journal of a PodGroup.
pub(crate) fn order_of(group: &Value) -> Option<&str> {
    group["status"]["provisioning"]["hash"].as_str()
}

impl AddAssign for OrderCounts {
    fn add_assign(&mut self, other: Self) {
        self.made += other.made;
        self.used += other.used;
        self.ended += other.ended;
        self.inherited += other.inherited;
        self.nodes += other.nodes;
    }
}

impl fmt::Display for OrderCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            made,
            used,
            ended,
            inherited,
            nodes,
        } = self;
        write!(
            formatter,
            "orders of new nodes: {made} made, {used} used by their gangs, {ended} ended without a plan, {inherited} taken over by a new leader; {nodes} nodes bought"
        )
    }
}
