//! How many new nodes a gang may get.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::explain::{PermittedNodes, ProvisioningObstacle};
use crate::gang::Gang;
use crate::ids::FlavorName;
use crate::node::{Taint, TaintEffect};
use crate::provisioning::FlavorGrowth;
use crate::queueing::WakeCondition;
use crate::state::{Catalog, GangShape, NodeIdx, NodeProperties};
use crate::time::Time;

/// Most gangs for which nodes of one flavor are provisioned at the same time.
const MAX_GANGS: usize = 64;
/// Most of these gangs that are larger than one new node. If the cloud has too few nodes, each of
/// them may hold some and start on none.
const MAX_LARGE_GANGS: usize = 8;

/// How many planned nodes of each flavor a search may use, at least one of each. They include those
/// that other gangs hold, because small gangs share a node.
pub(super) type AddableNodes = BTreeMap<FlavorName, PermittedNodes>;

/// The other gangs for which nodes of a flavor are provisioned.
#[derive(Clone, Copy, Debug, Default)]
struct OtherOrders {
    gangs: usize,
    /// The gangs that are larger than one new node.
    large: usize,
    /// The nodes that are still missing.
    missing: u32,
}

impl Engine {
    /// Returns the new nodes that a search for a gang may use, and the farthest obstacle if a flavor
    /// may get none. `ordered` is when nodes were first provisioned for the gang.
    pub(super) fn addable_nodes(
        &self,
        (gang, ordered): (&Gang, Option<Time>),
        assignment: &FlavorAssignment,
        wake: &mut WakeCondition,
    ) -> (AddableNodes, Option<ProvisioningObstacle>) {
        let mut addable = AddableNodes::new();
        let mut obstacles = Vec::new();
        for (flavor, growth, _) in self.growing_flavors(assignment) {
            let is_large = is_larger_than(&assignment.shape, growth, &self.catalog);
            match self.permitted_nodes((gang, ordered), (flavor, growth), is_large, wake) {
                Ok(nodes) => {
                    addable.insert(flavor.clone(), nodes);
                }
                Err(obstacle) => obstacles.push(obstacle),
            }
        }
        let farthest = obstacles.into_iter();
        (addable, farthest.max_by_key(ProvisioningObstacle::distance))
    }

    fn permitted_nodes(
        &self,
        (gang, ordered): (&Gang, Option<Time>),
        (flavor, growth): (&FlavorName, &FlavorGrowth),
        is_large: bool,
        wake: &mut WakeCondition,
    ) -> Result<PermittedNodes, ProvisioningObstacle> {
        if let Some(message) = gang.denied_flavors.get(flavor) {
            let message = message.clone();
            return Err(ProvisioningObstacle::Denied { message });
        }
        let nodes = self.count_nodes((flavor, growth), ordered);
        let max_nodes = growth.max_nodes;
        let flavor = flavor.clone();
        let Some(count) = max_nodes.checked_sub(nodes).filter(|count| *count > 0) else {
            return Err(ProvisioningObstacle::AtMaximum {
                flavor,
                nodes,
                max_nodes,
            });
        };
        // A back-off delays new orders only. The nodes of this one may still come.
        if ordered.is_none()
            && let Some(until) = self.back_offs.back_off_end(&gang.queue, &flavor, self.now)
        {
            wake.at_latest(until);
            return Err(ProvisioningObstacle::BackOff { flavor, until });
        }
        let others = self.other_orders(gang, (&flavor, growth));
        if others.gangs >= MAX_GANGS {
            let gangs = others.gangs;
            return Err(ProvisioningObstacle::TooManyGangs { flavor, gangs });
        }
        if is_large && others.large >= MAX_LARGE_GANGS {
            let gangs = others.large;
            return Err(ProvisioningObstacle::TooManyGangs { flavor, gangs });
        }
        Ok(PermittedNodes {
            count,
            on_order: others.missing.min(count),
        })
    }

    /// Returns the number of existing nodes of a flavor. For a gang with an order, nodes that have
    /// joined since and are not usable yet do not count: they are still planned nodes of the order.
    fn count_nodes(
        &self,
        (flavor, growth): (&FlavorName, &FlavorGrowth),
        ordered: Option<Time>,
    ) -> u32 {
        let flavors = self.queues.flavors();
        let nodes = self.nodes.iter();
        let nodes = nodes.filter(|(_, facts)| flavors.matches_labels(flavor, &facts.labels));
        let is_coming = |node: NodeIdx, facts: &NodeProperties| {
            ordered.is_some_and(|since| self.nodes.was_added_since(node, since))
                && !self.is_usable(node, facts, growth)
        };
        let existing = nodes.filter(|(node, facts)| !is_coming(*node, facts));
        u32::try_from(existing.count()).unwrap_or(u32::MAX)
    }

    /// True if a node is ready, has the resources of the template, and has only taints of the template.
    fn is_usable(&self, node: NodeIdx, facts: &NodeProperties, growth: &FlavorGrowth) -> bool {
        let template = &growth.node;
        let is_expected = |taint: &Taint| {
            taint.effect == TaintEffect::PreferNoSchedule || template.taints.contains(taint)
        };
        let mut resources = template.allocatable.iter();
        facts.ready
            && !facts.unschedulable
            && facts.taints.iter().all(is_expected)
            && resources.all(|(name, amount)| {
                let resource = self.catalog.resource(name);
                let offered = resource.map(|resource| self.nodes.allocatable(resource, node));
                amount <= 0 || offered.is_some_and(|offered| offered > 0)
            })
    }

    fn other_orders(
        &self,
        gang: &Gang,
        (flavor, growth): (&FlavorName, &FlavorGrowth),
    ) -> OtherOrders {
        let states = self.provisioning.iter();
        let states = states.filter_map(|at| self.gangs.get(*at));
        let mut others = OtherOrders::default();
        for state in states.filter(|state| state.gang.id != gang.id) {
            let order = state.provisioning.as_deref();
            let Some(missing) = order.and_then(|order| order.state.missing.get(flavor)) else {
                continue;
            };
            let is_large = is_larger_than(&state.shape, growth, &self.catalog);
            others.gangs = others.gangs.saturating_add(1);
            others.large = others.large.saturating_add(usize::from(is_large));
            others.missing = others.missing.saturating_add(*missing);
        }
        others
    }
}

/// True if a gang requests more than one new node offers.
fn is_larger_than(shape: &GangShape, growth: &FlavorGrowth, catalog: &Catalog) -> bool {
    shape.total.iter().any(|(resource, amount)| {
        let offered = growth.node.allocatable.get(&catalog.name(*resource));
        *amount > i128::from(offered)
    })
}
