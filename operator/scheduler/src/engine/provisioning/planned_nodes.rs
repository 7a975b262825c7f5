//! Planned nodes: nodes that a flavor may get and that do not exist yet.
//!
//! They have names that no node of Kubernetes can have, so that the charges of several gangs to
//! them add up. They have properties and capacity only while the engine searches for new nodes.

use std::collections::BTreeMap;

use super::super::Engine;
use crate::ids::{FlavorName, NodeName};
use crate::placement::Placement;

/// Separates a flavor from a number. The names of nodes are DNS names, so they have none.
const SEPARATOR: char = '/';

/// Returns the name of a flavor's planned node.
fn planned_node_name(flavor: &FlavorName, number: u32) -> NodeName {
    NodeName::new(format!("{}{SEPARATOR}{number}", flavor.as_str()))
}

/// Returns the flavor of a planned node. None: it is a node that exists or existed.
fn flavor_of(node: &NodeName) -> Option<FlavorName> {
    let (flavor, _) = node.as_str().rsplit_once(SEPARATOR)?;
    Some(FlavorName::new(flavor))
}

/// Returns the number of planned nodes of a placement, by flavor.
pub(super) fn count_planned_nodes(placement: &Placement) -> BTreeMap<FlavorName, u32> {
    let all = placement.groups().iter().flat_map(|group| &group.runs);
    let mut planned: Vec<&NodeName> = all
        .map(|(node, _)| node)
        .filter(|node| node.as_str().contains(SEPARATOR))
        .collect();
    planned.sort_unstable();
    planned.dedup();
    let mut counts = BTreeMap::new();
    for flavor in planned.into_iter().filter_map(flavor_of) {
        let count: &mut u32 = counts.entry(flavor).or_default();
        *count = count.saturating_add(1);
    }
    counts
}

impl Engine {
    /// Calls `search` while these numbers of planned nodes are there, as if they were empty apart
    /// from what gangs hold on them. `search` must undo its own charges.
    pub(super) fn with_planned_nodes<T>(
        &mut self,
        counts: &BTreeMap<FlavorName, u32>,
        search: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if self.reservations.is_stale() {
            // The reservations of other gangs must not rely on planned nodes.
            self.renew_heads();
        }
        let mut names = Vec::new();
        for (flavor, count) in counts {
            let growth = self.queues.flavors().growth(flavor);
            let Some(template) = growth.map(|growth| growth.node.clone()) else {
                continue;
            };
            for number in 1..=*count {
                let name = planned_node_name(flavor, number);
                let node = template.to_node(name.clone());
                self.nodes.apply(node, self.now, &mut self.catalog);
                names.push(name);
            }
        }
        self.blockages.clear();
        let result = search(self);
        for name in names {
            self.nodes.delete(&name);
        }
        self.blockages.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::GroupName;

    #[test]
    fn planned_nodes_are_counted_once_for_each_flavor_and_existing_nodes_are_not() {
        let planned = |flavor: &str, number| planned_node_name(&FlavorName::new(flavor), number);
        let mut placement = Placement::new();
        let leader = vec![(planned("cpu", 1), 1)];
        let workers = vec![
            (NodeName::new("n00.example.com"), 2),
            (planned("h100", 1), 2),
            (planned("h100", 3), 2),
            (planned("cpu", 1), 1),
        ];
        placement.push(GroupName::new("leader"), leader);
        placement.push(GroupName::new("worker"), workers);
        let counts = count_planned_nodes(&placement);
        let expected = [(FlavorName::new("cpu"), 1), (FlavorName::new("h100"), 2)];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
