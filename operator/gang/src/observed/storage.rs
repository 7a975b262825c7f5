//! Claims, volumes and storage classes, with the fields that determine on which nodes a pod may run
//! and which volumes fit which claims.

mod claim;
mod class;
mod volume;

pub use claim::{SlimClaim, SlimClaimSpec};
pub use class::{SlimStorageClass, default_class};
pub use volume::{SlimClaimRef, SlimVolume, ZONE_LABELS};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use kube::api::ObjectMeta;
use trellis_api::quantity::Amount;
use trellis_api::{Quantity, names};

/// The annotation of a claim that names the node for which its volume is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a volume whose claim was chosen by the controller manager and not by a user:
/// the controller manager may unbind it again.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

fn amount(amounts: &BTreeMap<String, RawQuantity>) -> Option<Amount> {
    match amounts.get("storage") {
        Some(quantity) => Quantity::new(quantity.0.as_str()).amount().ok(),
        None => Some(Amount::ZERO),
    }
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Drops all annotations but those of binding.
fn binding(mut meta: ObjectMeta) -> ObjectMeta {
    let mut annotations: BTreeMap<_, _> = meta.annotations.take().unwrap_or_default();
    annotations
        .retain(|key, _| [SELECTED_NODE, BOUND_BY_CONTROLLER, names::PLAN].contains(&key.as_str()));
    meta.annotations = Some(annotations).filter(|a| !a.is_empty());
    meta
}
