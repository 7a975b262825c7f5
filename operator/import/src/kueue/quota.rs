//! Quota of ClusterQueues and Cohorts.

use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_api::queue::{FlavorQuotas, ResourceGroup, ResourceQuota};

use crate::fields::Fields;

/// Reads the resource groups, which have the same form in Trellis.
pub(super) fn read_groups(spec: &Fields<'_>) -> Vec<ResourceGroup> {
    let groups = spec.objects("resourceGroups").into_iter();
    groups
        .map(|group| ResourceGroup {
            covered_resources: group.texts("coveredResources"),
            flavors: group.objects("flavors").iter().map(read_flavor).collect(),
        })
        .collect()
}

fn read_flavor(flavor: &Fields<'_>) -> FlavorQuotas {
    FlavorQuotas {
        name: flavor.text("name").unwrap_or_default(),
        resources: flavor.objects("resources").iter().map(read_quota).collect(),
    }
}

fn read_quota(resource: &Fields<'_>) -> ResourceQuota {
    ResourceQuota {
        name: resource.text("name").unwrap_or_default(),
        nominal_quota: resource.quantity("nominalQuota"),
        borrowing_limit: resource.quantity("borrowingLimit"),
        lending_limit: resource.quantity("lendingLimit"),
    }
}

/// Returns the weight. None: it is 1, the default.
pub(super) fn read_weight(owner: &Fields<'_>) -> Option<Quantity> {
    let sharing = owner.object("fairSharing")?;
    let weight = sharing.quantity("weight")?;
    let amount = weight.amount().ok()?;
    if amount.ceil_millis() != Some(amount.floor_millis()) {
        sharing.note_at(
            "weight",
            "is rounded up to thousandths",
            "multiply the weights of all queues",
        );
    }
    let is_one = amount == Amount::from_units(1);
    Some(weight).filter(|_| !is_one)
}
