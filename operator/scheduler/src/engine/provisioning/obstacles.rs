//! Why a gang gets no new nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignments;
use crate::explain::{BestDomain, ProvisioningObstacle, WaitDetail, WaitExplanation};
use crate::gang::Gang;
use crate::ids::FlavorName;

impl Engine {
    /// Returns the obstacle of a gang whose queue gets no new nodes, if one of its flavors may grow.
    pub(super) fn queue_obstacle(
        &self,
        gang: &Gang,
        assignments: &FlavorAssignments,
    ) -> Option<ProvisioningObstacle> {
        let flavors = self.queues.flavors();
        let choices = assignments
            .iter()
            .flat_map(|assignment| &assignment.choices);
        let mut chosen = choices.flat_map(|choice| choice.values());
        let can_grow = chosen.any(|flavor| flavors.growth(flavor).is_some());
        let may = gang.provisions && !gang.surplus && can_grow;
        may.then(|| ProvisioningObstacle::QueueNever {
            queue: gang.queue.clone(),
        })
    }

    /// Returns why a gang would not start even if the flavors got all these nodes. `wait` is its
    /// explanation with them.
    pub(super) fn remaining_obstacle(
        &self,
        nodes: BTreeMap<FlavorName, u32>,
        wait: &WaitExplanation,
    ) -> Option<ProvisioningObstacle> {
        match wait.detail.as_ref() {
            WaitDetail::ExceedsTopology(domain) | WaitDetail::TopologyFragmented { domain, .. }
                if let Some(missing) = self.missing_topology_label(&nodes, domain) =>
            {
                Some(missing)
            }
            WaitDetail::InsufficientCapacity { .. }
            | WaitDetail::Scattered { .. }
            | WaitDetail::SeparateResources { .. }
            | WaitDetail::GroupsCollide { .. }
            | WaitDetail::ClusterTooSmall { .. }
            | WaitDetail::TooFewPlaces { .. } => Some(ProvisioningObstacle::NotEnough { nodes }),
            _ if wait.reason.is_shortage_of_nodes() => Some(ProvisioningObstacle::Unsuitable {
                flavors: nodes.into_keys().collect(),
                detail: Arc::clone(&wait.detail),
            }),
            // Quota or a reservation is in the way, which the gang's own explanation tells.
            _ => None,
        }
    }

    /// Returns the obstacle of a domain whose labels new nodes lack.
    fn missing_topology_label(
        &self,
        nodes: &BTreeMap<FlavorName, u32>,
        domain: &BestDomain,
    ) -> Option<ProvisioningObstacle> {
        nodes.keys().find_map(|flavor| {
            let template = &self.queues.flavors().growth(flavor)?.node;
            let mut labels = domain.labels.iter();
            let label = labels.find(|label| !template.labels.contains_key(*label))?;
            Some(ProvisioningObstacle::MissingTopologyLabel {
                flavor: flavor.clone(),
                label: label.clone(),
            })
        })
    }
}
