//! Resource requests of one pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use trellis_api::job::{ResourceRequirements, TaskGroup};
use trellis_api::quantity::Amount;
use trellis_api::{ComputeResources, Quantity};

/// More than any node has, and still countable in thousandths. It stands in
/// for a quantity that cannot be read, which validation refuses: should one
/// come this far, its pod fits nowhere, instead of everywhere.
const UNPLACEABLE: Amount = Amount::from_units(i64::MAX / 1000);

/// The request of a pod's main container, as it was written or resolved, by resource name.
///
/// Devices of which none are asked are left out. `gpus` has the last word on
/// its resource, should `limits` name it too.
pub(crate) fn group_requests(
    group: &TaskGroup,
    compute: &ComputeResources,
) -> BTreeMap<String, Quantity> {
    let mut resources = group.resources.limits.clone();
    resources.retain(|_, quantity| amount_of(quantity) != Amount::ZERO);
    resources.insert("cpu".to_owned(), compute.cpu.quantity.clone());
    resources.insert("memory".to_owned(), compute.memory.quantity.clone());
    if group.gpus() > 0 {
        resources.insert(
            group.gpu_resource().to_owned(),
            Quantity::from_units(i64::from(group.gpus())),
        );
    }
    resources
}

type RequestAmounts = BTreeMap<String, Amount>;

/// Request of a pod with these requests of its containers and init containers, by resource: the sum
/// of containers and sidecars, or one init container with the sidecars before it, whichever is more
/// (KEP-753). The flag of an init container is true for a sidecar. `sum` adds two amounts, of which
/// none is negative.
pub fn combine_requests<A: Copy + Ord>(
    containers: impl IntoIterator<Item = BTreeMap<String, A>>,
    inits: impl IntoIterator<Item = (bool, BTreeMap<String, A>)>,
    sum: impl Fn(A, A) -> A,
) -> BTreeMap<String, A> {
    let merge =
        |to: &mut BTreeMap<String, A>, from: &BTreeMap<String, A>, of: &dyn Fn(A, A) -> A| {
            for (resource, amount) in from {
                let so_far = to.entry(resource.clone());
                so_far
                    .and_modify(|so_far| *so_far = of(*so_far, *amount))
                    .or_insert(*amount);
            }
        };
    let mut running = BTreeMap::new();
    for container in containers {
        merge(&mut running, &container, &sum);
    }
    let mut sidecars = BTreeMap::new();
    let mut starting = BTreeMap::new();
    for (is_sidecar, one) in inits {
        if is_sidecar {
            merge(&mut sidecars, &one, &sum);
            merge(&mut starting, &sidecars, &Ord::max);
        } else {
            let mut with_sidecars = sidecars.clone();
            merge(&mut with_sidecars, &one, &sum);
            merge(&mut starting, &with_sidecars, &Ord::max);
        }
    }
    merge(&mut running, &sidecars, &sum);
    merge(&mut running, &starting, &Ord::max);
    running
}

/// Request of a pod, as the kubelet admits it.
pub(crate) fn pod_requests(containers: &[Container], inits: &[Container]) -> RequestAmounts {
    let inits = inits.iter().map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        (is_sidecar, container_requests(container))
    });
    let sum = |a: Amount, b| a.checked_add(b).unwrap_or(UNPLACEABLE);
    combine_requests(containers.iter().map(container_requests), inits, sum)
}

/// Request of a container. A limit without a request counts as the request.
fn container_requests(container: &Container) -> RequestAmounts {
    let Some(resources) = &container.resources else {
        return RequestAmounts::new();
    };
    let (limits, requests) = (&resources.limits, &resources.requests);
    let said = limits.iter().flatten().chain(requests.iter().flatten());
    said.map(|(name, quantity)| (name.clone(), amount_of(&Quantity::new(quantity.0.as_str()))))
        .collect()
}

/// Names of the requested devices.
pub(crate) fn device_names(resources: &BTreeMap<String, Quantity>) -> impl Iterator<Item = &str> {
    resources
        .keys()
        .map(String::as_str)
        .filter(|name| !ResourceRequirements::NON_DEVICE_RESOURCES.contains(name))
}

/// The amount of a quantity.
pub(crate) fn amount_of(quantity: &Quantity) -> Amount {
    quantity.amount().unwrap_or(UNPLACEABLE)
}
