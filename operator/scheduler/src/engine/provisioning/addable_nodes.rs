//! How many new nodes a gang may get.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::explain::ProvisioningObstacle;
use crate::gang::Gang;
use crate::ids::FlavorName;
use crate::provisioning::FlavorGrowth;
use crate::queueing::WakeCondition;

/// Most gangs for which nodes of one flavor are provisioned at the same time.
const MAX_GANGS: usize = 8;

impl Engine {
    /// Returns how many planned nodes of each flavor may exist for this search, including those that
    /// other gangs hold, and the obstacle of the flavors that may get none. `has_order`: the gang has
    /// an order already.
    pub(super) fn addable_nodes(
        &self,
        (gang, has_order): (&Gang, bool),
        assignment: &FlavorAssignment,
        wake: &mut WakeCondition,
    ) -> (BTreeMap<FlavorName, u32>, Option<ProvisioningObstacle>) {
        let mut addable = BTreeMap::new();
        let mut nearest: Option<ProvisioningObstacle> = None;
        let chosen = assignment.choices.iter().flat_map(|choice| choice.values());
        for flavor in chosen {
            let Some(growth) = self.queues.flavors().growth(flavor) else {
                continue;
            };
            match self.count_addable_nodes((gang, has_order), (flavor, growth), wake) {
                Ok(more) => {
                    addable.insert(flavor.clone(), more);
                }
                Err(obstacle) => {
                    nearest = nearest
                        .into_iter()
                        .chain([obstacle])
                        .min_by_key(ProvisioningObstacle::rank);
                }
            }
        }
        (addable, nearest)
    }

    /// Returns how many planned nodes of a flavor may exist for this search: at least one.
    fn count_addable_nodes(
        &self,
        (gang, has_order): (&Gang, bool),
        (flavor, growth): (&FlavorName, &FlavorGrowth),
        wake: &mut WakeCondition,
    ) -> Result<u32, ProvisioningObstacle> {
        if let Some(message) = gang.denied_flavors.get(flavor) {
            let message = message.clone();
            return Err(ProvisioningObstacle::Denied { message });
        }
        let flavor = flavor.clone();
        // A back-off delays new orders only. The nodes of this one may still come.
        if !has_order
            && let Some(until) = self.back_offs.back_off_end(&gang.queue, &flavor, self.now)
        {
            wake.at_latest(until);
            return Err(ProvisioningObstacle::BackOff { flavor, until });
        }
        let gangs = self.count_provisioning_gangs(gang, &flavor);
        if gangs >= MAX_GANGS {
            return Err(ProvisioningObstacle::TooManyGangs { flavor, gangs });
        }
        let flavors = self.queues.flavors();
        let existing = self.nodes.iter();
        let existing = existing.filter(|(_, facts)| flavors.matches_labels(&flavor, &facts.labels));
        let existing = u32::try_from(existing.count()).unwrap_or(u32::MAX);
        let max_nodes = growth.max_nodes;
        match max_nodes.saturating_sub(existing) {
            0 => Err(ProvisioningObstacle::AtMaximum { flavor, max_nodes }),
            more => Ok(more),
        }
    }

    /// Returns the number of other gangs for which nodes of a flavor are provisioned.
    fn count_provisioning_gangs(&self, gang: &Gang, flavor: &FlavorName) -> usize {
        let others = self.provisioned_gangs().filter(|(id, _)| **id != gang.id);
        others
            .filter(|(_, other)| other.missing.contains_key(flavor))
            .count()
    }
}
