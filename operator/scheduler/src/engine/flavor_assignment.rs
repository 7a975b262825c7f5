//! Flavor assignments: the flavors with which the engine may place a gang (`way` in the code).

mod assignment_order;
mod assignments;
mod choice_pruning;
mod explanation;

pub(super) use assignments::{
    AssignmentResult, CachedAssignments, FlavorAssignment, FlavorAssignments,
};

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Engine;
use super::gang_table::choices_from_flavors;
use crate::gang::{Gang, TaskGroup};
use crate::ids::FlavorName;
use crate::placement::PodRuns;
use crate::queue::GroupFlavors;
use crate::queueing::{self, FlavorChoice};
use crate::quota::{Demand, FlavorResource};
use crate::state::{GangIdx, GangShape};

impl Engine {
    /// Returns the flavor assignments of a known gang.
    pub(super) fn assignments(&mut self, at: GangIdx) -> Option<AssignmentResult> {
        let state = self.gangs.get(at)?;
        if let Some(known) = &state.assignments
            && known.version == self.queues.config_version()
            && self.is_current(&known.assignments)
        {
            return Some(known.assignments.clone());
        }
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let ways = self.compute_assignments(&gang, &shape);
        let known = CachedAssignments {
            version: self.queues.config_version(),
            assignments: ways.clone(),
        };
        let before = self
            .gangs
            .get_mut(at)
            .and_then(|s| s.assignments.replace(known));
        if let Some(before) = before {
            self.release_assignments(&before.assignments);
        }
        Some(ways)
    }

    /// Returns the flavor assignment of a gang that was placed on these nodes before this engine
    /// knew it. `given` are its flavors; empty if unknown.
    pub(super) fn assignment_for_placement(
        &mut self,
        at: GangIdx,
        groups: &[PodRuns],
        given: &[GroupFlavors],
    ) -> Option<FlavorAssignment> {
        if !given.is_empty() {
            return self.assignment_with_flavors(at, given);
        }
        let ways = self.assignments(at);
        let taken = match &ways {
            Some(Ok(ways)) => self.find_assignment(ways, groups),
            _ => None,
        };
        if taken.is_some() {
            return taken;
        }
        // Its queue no longer offers it any flavor, but the gang keeps its charge.
        let shape = Arc::clone(&self.gangs.get(at)?.shape);
        Some(FlavorAssignment {
            demand: self.queue_demand(&shape, &[]),
            shape,
            choices: Vec::new(),
            owns_shape: false,
        })
    }

    /// Returns the assignment of a placed gang with these flavors.
    fn assignment_with_flavors(
        &mut self,
        at: GangIdx,
        given: &[GroupFlavors],
    ) -> Option<FlavorAssignment> {
        let state = self.gangs.get(at)?;
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let choices = choices_from_flavors(&gang, given);
        Some(FlavorAssignment {
            demand: self.queue_demand(&shape, &choices),
            shape,
            choices,
            owns_shape: false,
        })
    }

    /// Computes the flavor assignments of a gang. They must be released with
    /// [`Self::release_assignments`].
    pub(super) fn compute_assignments(
        &mut self,
        gang: &Gang,
        shape: &Arc<GangShape>,
    ) -> AssignmentResult {
        let offered = self
            .queues
            .offered_groups(&gang.queue, &self.catalog)
            .into_owned();
        let mut groups = gang.groups.iter();
        let any = groups.all(|g| g.flavors.is_empty() && g.same_flavor_as.is_none());
        if offered.is_empty() && any {
            let way = FlavorAssignment {
                shape: Arc::clone(shape),
                demand: self.queue_demand(shape, &[]),
                choices: Vec::new(),
                owns_shape: false,
            };
            return Ok(Arc::new(FlavorAssignments {
                assignments: vec![way],
                ..FlavorAssignments::default()
            }));
        }
        let mut choices = queueing::flavor_choices(gang, &offered, self.queues.flavors())?;
        let (mut ways, mut cut) = queueing::combine(gang, &choices);
        let mut thinned = None;
        if cut {
            thinned = Some(self.node_versions());
            let hope = self.drop_impossible_choices(gang, &mut choices);
            let (possible, more) = queueing::combine(gang, &choices);
            // If a group has no possible choice, or if groups that must get the same flavor share no
            // possible choice, the omitted assignments do not work either.
            cut = more && hope && !possible.is_empty();
            if !possible.is_empty() {
                ways = possible;
            }
        }
        let mut list = Vec::with_capacity(ways.len());
        for choices in ways {
            list.extend(self.compute_assignment(gang, shape, choices));
        }
        Ok(Arc::new(FlavorAssignments {
            assignments: list,
            thinned,
            truncated: cut,
        }))
    }

    /// True if the assignments still match the nodes.
    fn is_current(&self, ways: &AssignmentResult) -> bool {
        let thinned = ways.as_ref().ok().and_then(|ways| ways.thinned);
        thinned.is_none_or(|versions| versions == self.node_versions())
    }

    /// Returns the versions of node properties and kinds.
    fn node_versions(&self) -> (u64, u64) {
        (self.nodes.version(), self.nodes.kinds().version())
    }

    /// Computes the assignment with these choices. None: the gang requests nodes that belong to
    /// none of the flavors.
    fn compute_assignment(
        &mut self,
        gang: &Gang,
        shape: &Arc<GangShape>,
        choices: Vec<FlavorChoice>,
    ) -> Option<FlavorAssignment> {
        let mut constrained = gang.clone();
        let mut changed = false;
        for (group, choice) in constrained.groups.iter_mut().zip(&choices) {
            let before = group.constraints.clone();
            if !self.add_flavor_constraints(group, choice) {
                return None;
            }
            changed |= before != group.constraints;
        }
        let shape = if changed {
            Arc::new(self.catalog.acquire_shape(&constrained))
        } else {
            Arc::clone(shape)
        };
        Some(FlavorAssignment {
            demand: self.queue_demand(&shape, &choices),
            shape,
            choices,
            owns_shape: changed,
        })
    }

    /// Adds the constraints of a choice's flavors to a group. False: the group requests nodes
    /// outside them.
    pub(super) fn add_flavor_constraints(
        &self,
        group: &mut TaskGroup,
        choice: &FlavorChoice,
    ) -> bool {
        let flavors: BTreeSet<&FlavorName> = choice.values().collect();
        let known = self.queues.flavors();
        let mut flavors = flavors.into_iter();
        flavors.all(|flavor| known.add_constraints(flavor, &mut group.constraints))
    }

    /// Returns the charge of a gang. Resources without a chosen flavor are charged to the default
    /// one.
    pub(super) fn queue_demand(&mut self, shape: &GangShape, choices: &[FlavorChoice]) -> Demand {
        let mut amounts = Vec::new();
        for (number, group) in shape.groups.iter().enumerate() {
            for (resource, need) in group.demand.iter() {
                let name = self.catalog.name(*resource);
                let chosen = choices.get(number).and_then(|choice| choice.get(&name));
                let flavor = match chosen {
                    Some(flavor) => self.queues.intern_flavor(flavor),
                    None => self.queues.intern_flavor(&FlavorName::default()),
                };
                let all = i128::from(*need).saturating_mul(i128::from(group.count));
                let resource = *resource;
                amounts.push((FlavorResource { flavor, resource }, all));
            }
        }
        amounts.into_iter().collect()
    }

    /// Releases the shapes that the flavor assignments of a gang hold.
    pub(super) fn release_assignments(&mut self, ways: &AssignmentResult) {
        for way in ways.iter().flat_map(|ways| ways.iter()) {
            if way.owns_shape {
                self.drop_shape(&way.shape);
            }
        }
    }

    /// Returns the assignment of a gang that was placed on these nodes: the first one whose flavors
    /// match the labels of the nodes. If none matches, returns the first one, because labels may
    /// have changed since.
    fn find_assignment(
        &self,
        ways: &[FlavorAssignment],
        groups: &[PodRuns],
    ) -> Option<FlavorAssignment> {
        let fits = |way: &&FlavorAssignment| {
            way.choices.iter().zip(groups).all(|(choice, runs)| {
                choice.values().all(|flavor| {
                    runs.iter().all(|(node, _)| {
                        self.nodes.properties(*node).is_none_or(|facts| {
                            self.queues.flavors().matches_labels(flavor, &facts.labels)
                        })
                    })
                })
            })
        };
        ways.iter().find(fits).or_else(|| ways.first()).cloned()
    }
}
