//! The search for new nodes: the smallest number of planned nodes with which a gang could start.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::flavor_assignment::{FlavorAssignment, FlavorAssignments};
use super::super::{Engine, gang_table};
use super::ProvisioningPlan;
use super::planned_nodes::count_planned_nodes;
use crate::explain::ProvisioningObstacle;
use crate::gang::Gang;
use crate::ids::FlavorName;
use crate::placement::{Placement, UndoLog};
use crate::provisioning::{ProvisioningPolicy, ProvisioningScope};
use crate::queueing::{Blockage, Signal, WakeCondition};
use crate::state::{GangIdx, ResourceIdx};
use crate::time::Time;

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

    /// True if the engine tries preemption before it provisions nodes for the gang.
    pub(in crate::engine) fn provisions_after_preemption(&self, gang: &Gang) -> bool {
        let config = self.queues.config(&gang.queue);
        config.is_some_and(|queue| queue.provisioning.after_preemption)
    }

    /// Returns the new nodes of the first flavor assignment with which a gang could start on them.
    /// `since` is when it began to lack only room. The caller must have lifted its kept place. Adds
    /// to `wake` when the result may change.
    ///
    /// # Errors
    ///
    /// The obstacle to new nodes. None: the gang never gets any, or none of its flavors may grow.
    pub(in crate::engine) fn plan_provisioning(
        &mut self,
        gang: &Gang,
        (assignments, since): (&FlavorAssignments, Option<Time>),
        wake: &mut WakeCondition,
    ) -> Result<ProvisioningPlan, Option<ProvisioningObstacle>> {
        let mut search_wake = WakeCondition::default();
        search_wake
            .on_least_rise(Signal::Nodes, 1)
            .on_least_rise(Signal::Queues, 1);
        let planned = match self.provisioning_policy(gang) {
            Some(policy) => self.plan_in_any(gang, (assignments, policy), &mut search_wake),
            None => Err(self.queue_obstacle(gang, assignments)),
        };
        let after = self.queues.config(&gang.queue);
        let after = after.map_or(Duration::ZERO, |queue| queue.provisioning.after);
        let delay_end = since.map(|since| since.plus(after));
        match (planned, delay_end.filter(|end| *end > self.now)) {
            // The plan may change until then, and the gang is tried again.
            (Ok(plan), Some(until)) => {
                wake.at_latest(until);
                let nodes = plan.nodes;
                Err(Some(ProvisioningObstacle::Delay { nodes, after }))
            }
            (planned, _) => {
                wake.merge(&search_wake);
                planned
            }
        }
    }

    /// Returns the plan of the first flavor assignment that has one, or the nearest obstacle.
    fn plan_in_any(
        &mut self,
        gang: &Gang,
        (assignments, policy): (&FlavorAssignments, ProvisioningPolicy),
        wake: &mut WakeCondition,
    ) -> Result<ProvisioningPlan, Option<ProvisioningObstacle>> {
        let state = self.gangs.find(&gang.id).and_then(|at| self.gangs.get(at));
        let current = state.and_then(|state| state.provisioning.as_deref());
        let ordered = current.map(|provisioning| provisioning.state.since);
        let current = current.map(|provisioning| provisioning.choices.clone());
        let mut obstacles = Vec::new();
        for assignment in assignments.iter() {
            if current
                .as_ref()
                .is_some_and(|choices| *choices != assignment.choices)
            {
                continue;
            }
            match self.plan_with_assignment(gang, (assignment, policy), ordered, wake) {
                Ok(plan) => return Ok(plan),
                Err(obstacle) => obstacles.extend(obstacle),
            }
        }
        let nearest = obstacles.into_iter();
        Err(nearest.min_by_key(ProvisioningObstacle::distance))
    }

    /// Returns the new nodes with which a gang could start by this flavor assignment, or its farthest
    /// obstacle. `ordered` is when nodes were first provisioned for the gang.
    fn plan_with_assignment(
        &mut self,
        gang: &Gang,
        (assignment, policy): (&FlavorAssignment, ProvisioningPolicy),
        ordered: Option<Time>,
        wake: &mut WakeCondition,
    ) -> Result<ProvisioningPlan, Option<ProvisioningObstacle>> {
        if self.growing_flavors(assignment).next().is_none() {
            return Err(None);
        }
        let leaf = self.queues.leaf(&gang.queue).ok_or(None)?;
        if policy.scope == ProvisioningScope::Nominal
            && self.queues.tree().borrows(leaf, &assignment.demand)
        {
            let queue = gang.queue.clone();
            return Err(Some(ProvisioningObstacle::Borrowing { queue }));
        }
        let (addable, obstacle) = self.addable_nodes((gang, ordered), assignment, wake);
        let counts = addable.iter();
        let counts = counts.map(|(flavor, nodes)| (flavor.clone(), nodes.count));
        let counts: BTreeMap<FlavorName, u32> = counts.collect();
        self.wake_on_freed_room(assignment, &counts, wake);
        let remaining = match counts.is_empty() {
            true => self.template_obstacle(gang, assignment),
            false => match self.place_on_fewest_new_nodes(gang, assignment, counts) {
                Ok(placement) => {
                    return Ok(ProvisioningPlan {
                        assignment: assignment.clone(),
                        nodes: count_planned_nodes(&placement),
                        placement,
                        wake: WakeCondition::default(),
                    });
                }
                Err(blocked) => {
                    self.remaining_obstacle((gang, assignment), addable, &blocked.explanation)
                }
            },
        };
        let all = obstacle.into_iter().chain(remaining);
        Err(all.max_by_key(ProvisioningObstacle::distance))
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

    /// Returns a placement on existing nodes and as few planned nodes as possible.
    ///
    /// # Errors
    ///
    /// Why the gang does not fit with `most` planned nodes.
    fn place_on_fewest_new_nodes(
        &mut self,
        gang: &Gang,
        assignment: &FlavorAssignment,
        mut most: BTreeMap<FlavorName, u32>,
    ) -> Result<Placement, Box<Blockage>> {
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
                    Ok(found) => (enough, placement) = (middle, found),
                    Err(_) => too_few = Some(middle),
                }
            }
            most.insert(flavor, enough);
        }
        Ok(placement)
    }

    /// Returns the placement of a gang that a cycle would find with these planned nodes.
    fn place_with_planned_nodes(
        &mut self,
        gang: &Gang,
        assignment: &FlavorAssignment,
        counts: &BTreeMap<FlavorName, u32>,
    ) -> Result<Placement, Box<Blockage>> {
        self.with_planned_nodes(counts, |engine| {
            let mut log = UndoLog::default();
            let groups = engine.try_assignment(gang, assignment, &mut log);
            log.roll_back(&mut engine.nodes);
            let groups = groups?;
            Ok(gang_table::placement(&engine.nodes, gang, groups.iter()))
        })
    }
}
