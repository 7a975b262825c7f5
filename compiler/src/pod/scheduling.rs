//! Affinity and tolerations of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use trellis_api::job::{self, TaskGroup, TolerationEffect, TolerationOperator};
use trellis_api::{Quantity, names};

use crate::resources;

/// Node affinity, where there is one.
pub(super) fn affinity(affinity: Option<&job::Affinity>) -> Option<Affinity> {
    let node_affinity = affinity?.node_affinity.clone()?;
    Some(Affinity {
        node_affinity: Some(node_affinity),
        ..Affinity::default()
    })
}

/// A toleration of the taint of Trellis' own nodes, one of the taint of each
/// requested device's name, as GPU nodes bear it (Kubernetes'
/// `ExtendedResourceToleration`), then the user's.
pub(super) fn tolerations(
    group: &TaskGroup,
    requested: &BTreeMap<String, Quantity>,
) -> Vec<Toleration> {
    let own = std::iter::once(names::DEDICATED_NODE);
    let taints = own.chain(resources::device_names(requested));
    let mut tolerations: Vec<_> = taints.map(no_schedule_toleration).collect();
    for toleration in group.tolerations.iter().map(toleration) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    tolerations
}

fn no_schedule_toleration(key: &str) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator(TolerationOperator::Exists).to_owned()),
        effect: Some(effect(TolerationEffect::NoSchedule).to_owned()),
        ..Toleration::default()
    }
}

/// A toleration in Kubernetes' own type.
#[must_use]
pub fn toleration(toleration: &job::Toleration) -> Toleration {
    Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.map(|o| operator(o).to_owned()),
        value: toleration.value.clone(),
        effect: toleration.effect.map(|e| effect(e).to_owned()),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn operator(operator: TolerationOperator) -> &'static str {
    match operator {
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Equal => "Equal",
    }
}

fn effect(effect: TolerationEffect) -> &'static str {
    match effect {
        TolerationEffect::NoSchedule => "NoSchedule",
        TolerationEffect::PreferNoSchedule => "PreferNoSchedule",
        TolerationEffect::NoExecute => "NoExecute",
    }
}
