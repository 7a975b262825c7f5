//! Quota of ClusterQueues and Cohorts.

use trellis_api::Quantity;
use trellis_api::queue::{FlavorQuotas, ResourceGroup, ResourceQuota};

use crate::fields::Fields;

/// The resource groups, the same here.
pub(super) fn groups(spec: &Fields<'_>) -> Vec<ResourceGroup> {
    let groups = spec.objects("resourceGroups").into_iter();
    groups
        .map(|group| ResourceGroup {
            resources: group.texts("coveredResources"),
            flavors: group.objects("flavors").iter().map(flavor).collect(),
        })
        .collect()
}

fn flavor(flavor: &Fields<'_>) -> FlavorQuotas {
    FlavorQuotas {
        name: flavor.text("name").unwrap_or_default(),
        quotas: flavor.objects("resources").iter().map(quota).collect(),
    }
}

fn quota(resource: &Fields<'_>) -> ResourceQuota {
    let nominal = resource.quantity("nominalQuota");
    ResourceQuota {
        resource: resource.text("name").unwrap_or_default(),
        // Required in v1beta1, and 0 where it is absent in v1beta2.
        nominal: nominal.unwrap_or_else(|| Quantity::from_units(0)),
        borrowing_limit: resource.quantity("borrowingLimit"),
        lending_limit: resource.quantity("lendingLimit"),
    }
}

/// A weight in thousandths, where it is another than 1.
pub(super) fn weight(owner: &Fields<'_>) -> Option<i64> {
    let sharing = owner.object("fairSharing")?;
    let weight = sharing.quantity("weight")?;
    let amount = weight.amount().ok()?;
    let millis = amount.millis_up();
    if millis != Some(amount.millis_down()) {
        sharing.note_at(
            "weight",
            "is counted in whole thousandths here",
            "multiply the weights of all queues",
        );
    }
    millis.filter(|millis| *millis != 1000)
}
