//! The quota that a job holds.

use std::collections::BTreeMap;

use trellis_api::visibility::QuotaHold;
use trellis_gang::engine;
use trellis_scheduler::{ChargeSnapshot, FlavorName, PlaceSnapshot, Queue, ResourceName};

/// Amounts by flavor and resource, in base units.
#[derive(Debug, Default)]
pub(super) struct HeldQuota<'s>(BTreeMap<(&'s FlavorName, &'s ResourceName), i128>);

impl<'s> HeldQuota<'s> {
    /// Adds the charges of a place.
    pub(super) fn add(&mut self, place: &'s PlaceSnapshot) {
        for charge in &place.charged {
            let ChargeSnapshot {
                flavor,
                resource,
                amount,
            } = charge;
            let held = self.0.entry((flavor, resource)).or_default();
            *held = held.saturating_add(*amount);
        }
    }

    /// Returns the amounts in the form of the API. Amounts for which the queue has no quota are left
    /// out. None: the queue does not exist any more.
    pub(super) fn to_holds(&self, queue: Option<&Queue>) -> Vec<QuotaHold> {
        let has_quota = |flavor: &FlavorName, resource: &ResourceName| {
            let groups = queue.into_iter().flat_map(|queue| &queue.resource_groups);
            let mut flavors = groups.flat_map(|group| &group.flavors);
            flavors.any(|quotas| quotas.flavor == *flavor && quotas.quotas.contains_key(resource))
        };
        let held = self
            .0
            .iter()
            .filter(|((flavor, resource), amount)| **amount != 0 && has_quota(flavor, resource));
        let held = held.map(|((flavor, resource), amount)| QuotaHold {
            flavor: flavor.as_str().to_owned(),
            resource: resource.as_str().to_owned(),
            amount: engine::to_quantity(resource.as_str(), *amount),
        });
        held.collect()
    }
}

/// Formats the amounts for a table: `8 nvidia.com/gpu of h100`.
pub(super) fn format_holds(holds: &[QuotaHold]) -> String {
    let holds = holds.iter().map(|hold| {
        let QuotaHold {
            flavor,
            resource,
            amount,
        } = hold;
        format!("{} {resource} of {flavor}", amount.as_str())
    });
    holds.collect::<Vec<_>>().join(", ")
}
