//! Why a gang gets no new nodes.

use std::sync::Arc;

use super::super::Engine;
use super::super::flavor_assignment::{FlavorAssignment, FlavorAssignments};
use super::addable_nodes::AddableNodes;
use crate::explain::{ProvisioningObstacle, WaitExplanation, WaitReason};
use crate::gang::Gang;
use crate::ids::{FlavorName, NodeName};
use crate::provisioning::FlavorGrowth;
use crate::state::GroupShape;
use crate::topology::TopologyRequest;

impl Engine {
    /// Returns the obstacle if the queue of a gang permits no new nodes, and a flavor of the assignments
    /// may grow.
    pub(super) fn queue_obstacle(
        &self,
        gang: &Gang,
        assignments: &FlavorAssignments,
    ) -> Option<ProvisioningObstacle> {
        let can_grow = || {
            assignments
                .iter()
                .any(|assignment| self.growing_flavors(assignment).next().is_some())
        };
        let is_told = gang.provisions && !gang.surplus && can_grow();
        is_told.then(|| ProvisioningObstacle::QueueNever {
            queue: gang.queue.clone(),
        })
    }

    /// Returns the flavors of an assignment that may grow, with the numbers of their task groups.
    pub(super) fn growing_flavors<'a>(
        &'a self,
        assignment: &'a FlavorAssignment,
    ) -> impl Iterator<Item = (&'a FlavorName, &'a FlavorGrowth, usize)> {
        let groups = assignment.choices.iter().enumerate();
        groups.flat_map(move |(group, choice)| {
            choice.values().filter_map(move |flavor| {
                let growth = self.queues.flavors().growth(flavor)?;
                Some((flavor, growth, group))
            })
        })
    }

    /// Returns the obstacle that remains with all these new nodes. `wait` explains why the gang does
    /// not start with them.
    pub(super) fn remaining_obstacle(
        &self,
        (gang, assignment): (&Gang, &FlavorAssignment),
        nodes: AddableNodes,
        wait: &WaitExplanation,
    ) -> Option<ProvisioningObstacle> {
        match wait.reason {
            WaitReason::Reserved => Some(ProvisioningObstacle::StillWaits {
                detail: Arc::clone(&wait.detail),
            }),
            reason if reason.is_shortage_of_nodes() => self
                .template_obstacle(gang, assignment)
                .or(Some(ProvisioningObstacle::NotEnough { nodes })),
            // This assignment lacks quota, too.
            _ => None,
        }
    }

    /// Returns why new nodes have no place for the pods of a group, whatever their number.
    pub(super) fn template_obstacle(
        &self,
        gang: &Gang,
        assignment: &FlavorAssignment,
    ) -> Option<ProvisioningObstacle> {
        let groups = self.growing_flavors(assignment);
        let obstacles = groups.filter_map(|(flavor, growth, number)| {
            let shape = assignment.shape.groups.get(number)?;
            let topology = shape.topology.as_ref().or(gang.topology.as_ref());
            let required = topology.and_then(TopologyRequest::required_level);
            let slices = shape.slices.iter().map(|layer| layer.level.as_str());
            let mut levels = required.into_iter().chain(slices);
            levels
                .find_map(|level| self.missing_topology_label((flavor, growth), level))
                .or_else(|| self.group_obstacle((flavor, growth), shape))
        });
        obstacles.max_by_key(ProvisioningObstacle::distance)
    }

    /// Returns why a new node of a flavor has no place for one pod of a group.
    fn group_obstacle(
        &self,
        (flavor, growth): (&FlavorName, &FlavorGrowth),
        group: &GroupShape,
    ) -> Option<ProvisioningObstacle> {
        let template = &growth.node;
        let flavor = flavor.clone();
        let constraints = self.catalog.signature(group.signature)?.constraints();
        if let Some((key, value)) = constraints.missing_label(&template.labels) {
            return Some(ProvisioningObstacle::MissingLabel {
                flavor,
                key: key.to_owned(),
                value: value.to_owned(),
            });
        }
        // No affinity names a node that does not exist.
        if !constraints.required_affinity_matches(&NodeName::new(""), &template.labels) {
            return Some(ProvisioningObstacle::NodeAffinity { flavor });
        }
        if let Some(taint) = constraints.repelling_taint(&template.taints) {
            let taint = taint.to_string();
            return Some(ProvisioningObstacle::Taint { flavor, taint });
        }
        group.demand.iter().find_map(|(resource, needs)| {
            let resource = self.catalog.name(*resource);
            let offered = template.allocatable.get(&resource);
            (*needs > offered).then(|| ProvisioningObstacle::PodTooLarge {
                flavor: flavor.clone(),
                resource,
                needs: *needs,
                offered,
            })
        })
    }

    /// Returns the obstacle of a topology level, required or of slices, whose labels new nodes
    /// lack.
    fn missing_topology_label(
        &self,
        (flavor, growth): (&FlavorName, &FlavorGrowth),
        level: &str,
    ) -> Option<ProvisioningObstacle> {
        let labels = self.nodes.domains().level_labels(level);
        let mut labels = labels.into_iter();
        let label = labels.find(|label| !growth.node.labels.contains_key(label))?;
        Some(ProvisioningObstacle::MissingTopologyLabel {
            flavor: flavor.clone(),
            label,
        })
    }
}
