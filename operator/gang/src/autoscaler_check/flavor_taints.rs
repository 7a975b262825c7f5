//! The taints that keep pods of a flavor off its nodes.

use trellis_api::resource_flavor::FlavorProvisioning;
use trellis_api::{ResourceFlavorSpec, names};
use trellis_scheduler::{Taint, TaintEffect, Toleration};

use crate::engine;
use crate::requirements::constraints;

/// Returns true if every job of the flavor tolerates the taint. A job of the flavor tolerates the
/// flavor's `nodeTaints`, gets the flavor's tolerations, and tolerates taints named after devices
/// that it requests.
pub(super) fn is_tolerated(
    taint: &Taint,
    flavor: &ResourceFlavorSpec,
    provisioning: &FlavorProvisioning,
) -> bool {
    let tolerations = flavor.tolerations.iter().map(trellis_compiler::toleration);
    let tolerations: Vec<Toleration> = tolerations
        .filter_map(|toleration| constraints::convert_toleration(&toleration))
        .collect();
    taint.effect == TaintEffect::PreferNoSchedule
        || taint.key == names::DEDICATED_NODE
        || provisioning.node.allocatable.contains_key(&taint.key)
        || own_taints(flavor).any(|own| own == *taint)
        || tolerations.iter().any(|t| t.tolerates(taint))
}

/// Returns the taints in `nodeTaints` of the flavor.
pub(super) fn own_taints(flavor: &ResourceFlavorSpec) -> impl Iterator<Item = Taint> {
    flavor.node_taints.iter().map(engine::to_taint)
}
