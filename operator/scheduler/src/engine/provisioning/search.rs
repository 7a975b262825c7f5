//! The search for new nodes: the smallest number of planned nodes with which a gang could start.

use std::collections::BTreeMap;

use super::super::flavor_assignment::{FlavorAssignment, FlavorAssignments};
use super::super::{Engine, gang_table};
use super::ProvisioningPlan;
use super::planned_nodes::count_planned_nodes;
use crate::gang::Gang;
use crate::ids::FlavorName;
use crate::placement::{Placement, UndoLog};
use crate::provisioning::{ProvisioningPolicy, ProvisioningScope};
use crate::queueing::{Signal, WakeCondition};
use crate::state::{GangIdx, ResourceIdx};
use crate::time::Time;

/// Most gangs for which nodes of one flavor are provisioned at the same time.
const MAX_GANGS: usize = 8;

impl Engine {
    /// Returns the policy by which nodes may be provisioned for a gang. None: there are none.
    pub(in crate::engine) fn provisioning_policy(&self, gang: &Gang) -> Option<ProvisioningPolicy> {
        let policy = self.queues.config(&gang.queue)?.provisioning;
        let may = gang.provisions && !gang.surplus && policy.scope != ProvisioningScope::Never;
        (may && self.queues.flavors().can_grow()).then_some(policy)
    }

    /// Returns the start of the delay before a gang's first order: the time since which the gang has
    /// lacked only room. None: the gang has an order or restarts, so no delay applies.
    pub(in crate::engine) fn provisioning_delay_start(&self, at: GangIdx) -> Option<Time> {
        let state = self.gangs.get(at)?;
        let is_known = state.provisioning.is_some() || self.kept_places.contains(at);
        (!is_known).then(|| state.short_since.unwrap_or(self.now))
    }

    /// Returns the new nodes of the first flavor assignment with which a gang could start on them.
    /// `since` is when it began to lack only room. The caller must have lifted its kept place. Adds
    /// to `wake` when the result may change.
    pub(in crate::engine) fn plan_provisioning(
        &mut self,
        gang: &Gang,
        (assignments, since): (&FlavorAssignments, Option<Time>),
        wake: &mut WakeCondition,
    ) -> Option<ProvisioningPlan> {
        let policy = self.provisioning_policy(gang)?;
        if let Some(from) = since.map(|since| since.plus(policy.after))
            && from > self.now
        {
            wake.at_latest(from);
            return None;
        }
        let state = self.gangs.find(&gang.id).and_then(|at| self.gangs.get(at));
        let current = state.and_then(|state| state.provisioning.as_deref());
        let current = current.map(|provisioning| provisioning.choices.clone());
        wake.on_least_rise(Signal::Nodes, 1)
            .on_least_rise(Signal::Queues, 1);
        for assignment in assignments.iter() {
            if current
                .as_ref()
                .is_some_and(|choices| *choices != assignment.choices)
            {
                continue;
            }
            let leaf = self.queues.leaf(&gang.queue)?;
            if policy.scope == ProvisioningScope::Nominal
                && self.queues.tree().borrows(leaf, &assignment.demand)
            {
                continue;
            }
            let addable = self.addable_nodes((gang, current.is_some()), assignment, wake);
            self.wake_on_freed_room(assignment, &addable, wake);
            if let Some(placement) = self.place_on_fewest_new_nodes(gang, assignment, addable) {
                return Some(ProvisioningPlan {
                    assignment: assignment.clone(),
                    nodes: count_planned_nodes(&placement),
                    placement,
                    wake: WakeCondition::default(),
                });
            }
        }
        None
    }

    /// Returns how many planned nodes of each flavor may exist for this search, including those that
    /// other gangs hold. `has_order`: the gang has an order already.
    fn addable_nodes(
        &self,
        (gang, has_order): (&Gang, bool),
        assignment: &FlavorAssignment,
        wake: &mut WakeCondition,
    ) -> BTreeMap<FlavorName, u32> {
        let flavors = self.queues.flavors();
        let mut addable = BTreeMap::new();
        let chosen = assignment.choices.iter().flat_map(|choice| choice.values());
        for flavor in chosen.filter(|flavor| !gang.fixed_flavors.contains(*flavor)) {
            let Some(growth) = flavors.growth(flavor) else {
                continue;
            };
            // A back-off delays new orders only. The nodes of this one may still come.
            if !has_order
                && let Some(end) = self.back_offs.back_off_end(&gang.queue, flavor, self.now)
            {
                wake.at_latest(end);
                continue;
            }
            if self.count_provisioning_gangs(gang, flavor) >= MAX_GANGS {
                continue;
            }
            let existing = self.nodes.iter();
            let existing =
                existing.filter(|(_, facts)| flavors.matches_labels(flavor, &facts.labels));
            let existing = u32::try_from(existing.count()).unwrap_or(u32::MAX);
            let more = growth.max_nodes.saturating_sub(existing);
            if more > 0 {
                addable.insert(flavor.clone(), more);
            }
        }
        addable
    }

    /// Wakes a gang when the free room and the new nodes that it may get suffice together. The usual
    /// wake-up counts existing nodes only, so it may never come.
    fn wake_on_freed_room(
        &self,
        assignment: &FlavorAssignment,
        addable: &BTreeMap<FlavorName, u32>,
        wake: &mut WakeCondition,
    ) {
        if addable.is_empty() {
            return;
        }
        let flavors = self.queues.flavors();
        let lack = |resource: ResourceIdx, need: i128| {
            let name = self.catalog.name(resource);
            let new = addable.iter().filter_map(|(flavor, count)| {
                let offered = flavors.growth(flavor)?.node.allocatable.get(&name);
                Some(i128::from(offered).saturating_mul(i128::from(*count)))
            });
            let free = self.nodes.iter();
            let free = free.map(|(node, _)| i128::from(self.nodes.free(resource, node)));
            need.saturating_sub(new.chain(free).fold(0, i128::saturating_add))
        };
        let total = &assignment.shape.total;
        // Parts of shared devices do not add up.
        let mut whole = total
            .iter()
            .filter(|(resource, _)| self.nodes.shared_device(*resource).is_none());
        let lacking = whole.find_map(|(resource, need)| {
            let lack = lack(*resource, *need);
            (lack > 0).then_some((*resource, lack))
        });
        if let Some((resource, lack)) = lacking {
            wake.on_least_rise(Signal::Freed(resource), lack);
            return;
        }
        for (resource, _) in total {
            wake.on_least_rise(Signal::Freed(*resource), 1);
        }
    }

    /// Returns the number of other gangs for which nodes of a flavor are provisioned.
    fn count_provisioning_gangs(&self, gang: &Gang, flavor: &FlavorName) -> usize {
        let others = self.provisioned_gangs().filter(|(id, _)| **id != gang.id);
        others
            .filter(|(_, other)| other.missing.contains_key(flavor))
            .count()
    }

    /// Returns a placement on existing nodes and as few planned nodes as possible. None: there is
    /// none with at most `most` planned nodes.
    fn place_on_fewest_new_nodes(
        &mut self,
        gang: &Gang,
        assignment: &FlavorAssignment,
        mut most: BTreeMap<FlavorName, u32>,
    ) -> Option<Placement> {
        if most.is_empty() {
            return None;
        }
        let mut placement = self.place_with_planned_nodes(gang, assignment, &most)?;
        // More nodes are never worse, so bisection finds the smallest number of each flavor.
        for flavor in most.keys().cloned().collect::<Vec<_>>() {
            let (mut too_few, mut enough) = (None, most.get(&flavor).copied().unwrap_or(0));
            loop {
                let first = too_few.map_or(0, |few: u32| few.saturating_add(1));
                if first >= enough {
                    break;
                }
                let middle = first.midpoint(enough);
                let mut fewer = most.clone();
                fewer.insert(flavor.clone(), middle);
                match self.place_with_planned_nodes(gang, assignment, &fewer) {
                    Some(found) => (enough, placement) = (middle, found),
                    None => too_few = Some(middle),
                }
            }
            most.insert(flavor, enough);
        }
        Some(placement)
    }

    /// Returns the placement of a gang that a cycle would find with these planned nodes.
    fn place_with_planned_nodes(
        &mut self,
        gang: &Gang,
        assignment: &FlavorAssignment,
        counts: &BTreeMap<FlavorName, u32>,
    ) -> Option<Placement> {
        self.with_planned_nodes(counts, |engine| {
            let mut log = UndoLog::default();
            let groups = engine.try_assignment(gang, assignment, &mut log);
            log.roll_back(&mut engine.nodes);
            let groups = groups.ok()?;
            Some(gang_table::placement(&engine.nodes, gang, groups.iter()))
        })
    }
}
