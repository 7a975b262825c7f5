//! What a pod asks of its node, as the kubelet counts it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use trellis_api::Quantity;
use trellis_scheduler::{ResourceName, Resources};

use crate::watch::{SlimContainer, SlimContainerStatus, SlimNode, SlimPod};

/// Base units of a resource: thousandths of a core, bytes, or a count. What is
/// no quantity counts as more than any node has: nothing is placed beside it.
fn base_units(resource: &str, quantity: &str) -> i64 {
    let Ok(amount) = Quantity::new(quantity).amount() else {
        return i64::MAX;
    };
    let units = if resource == "cpu" {
        amount.millis_up()
    } else {
        amount.units_up()
    };
    units.unwrap_or(i64::MAX).max(0)
}

type Sums = BTreeMap<String, i64>;

fn add(to: &mut Sums, from: &Sums) {
    for (resource, amount) in from {
        let sum = to.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut Sums, from: &Sums) {
    for (resource, amount) in from {
        let most = to.entry(resource.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

fn sums(quantities: &BTreeMap<String, RawQuantity>) -> Sums {
    quantities
        .iter()
        .map(|(resource, q)| (resource.clone(), base_units(resource, &q.0)))
        .collect()
}

/// The most of what a container asks for, is allocated and runs with. The
/// kubelet sorts statuses by name, so they are found by name.
fn of_container(container: &SlimContainer, statuses: &[SlimContainerStatus]) -> Sums {
    let mut most = sums(&container.resources.requests);
    if let Some(status) = statuses.iter().find(|s| s.name == container.name) {
        raise(&mut most, &sums(&status.allocated_resources));
        raise(&mut most, &sums(&status.resources.requests));
    }
    most
}

/// The request of a pod: containers and sidecars together, or one init
/// container with the sidecars before it, whichever is more, and the overhead
/// (KEP-753). Of a pod that is being resized the largest of what its spec
/// says, what is allocated and what it runs with (KEP-1287).
#[must_use]
pub fn of_pod(pod: &SlimPod) -> Resources {
    let mut running = Sums::new();
    for container in &pod.spec.containers {
        let one = of_container(container, &pod.status.container_statuses);
        add(&mut running, &one);
    }
    let mut sidecars = Sums::new();
    let mut starting = Sums::new();
    for container in &pod.spec.init_containers {
        let one = of_container(container, &pod.status.init_container_statuses);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &one);
            raise(&mut starting, &sidecars);
        } else {
            let mut with_sidecars = sidecars.clone();
            add(&mut with_sidecars, &one);
            raise(&mut starting, &with_sidecars);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    // Pod-level resources stand for the sum of the containers where they are given (KEP-2837).
    for (resource, amount) in sums(&pod.spec.resources.requests) {
        running.insert(resource, amount);
    }
    add(&mut running, &sums(&pod.spec.overhead));
    resources(running)
}

/// What a node offers.
#[must_use]
pub fn of_node(node: &SlimNode) -> Resources {
    // An unreadable offer is none.
    let offered = node.status.allocatable.iter().map(|(resource, q)| {
        let units = base_units(resource, &q.0);
        (resource.clone(), if units == i64::MAX { 0 } else { units })
    });
    resources(offered.collect())
}

/// The engine's form.
#[must_use]
pub fn resources(sums: BTreeMap<String, i64>) -> Resources {
    sums.into_iter()
        .map(|(name, amount)| (ResourceName::new(name), amount))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: serde_json::Value) -> Resources {
        of_pod(&serde_json::from_value(json).unwrap())
    }

    fn get(resources: &Resources, name: &str) -> i64 {
        resources.get(&ResourceName::new(name))
    }

    fn container(cpu: &str) -> serde_json::Value {
        serde_json::json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_init_containers_do_not() {
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [container("1"), container("500m")],
            "initContainers": [container("1"), container("2")],
        }}));
        assert_eq!(get(&r, "cpu"), 2000);
    }

    #[test]
    fn sidecars_count_with_what_starts_after_them() {
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = "Always".into();
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [container("1")],
            "initContainers": [sidecar, container("3")],
        }}));
        assert_eq!(get(&r, "cpu"), 4000);
    }

    #[test]
    fn a_resized_pod_counts_with_the_most() {
        let r = pod(
            serde_json::json!({"metadata": {}, "spec": {"containers": [container("1")]},
            "status": {"containerStatuses": [{"allocatedResources": {"cpu": "2"}}]}}),
        );
        assert_eq!(get(&r, "cpu"), 2000);
    }

    #[test]
    fn statuses_belong_to_the_container_of_their_name() {
        let named = |name: &str, cpu: &str| serde_json::json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let status = |name: &str, cpu: &str| serde_json::json!({"name": name, "allocatedResources": {"cpu": cpu}});
        let mut sidecar = named("proxy", "1");
        sidecar["restartPolicy"] = "Always".into();
        let r = pod(serde_json::json!({"metadata": {},
            "spec": {
                "containers": [named("small", "1"), named("big", "8")],
                "initContainers": [sidecar],
            },
            "status": {
                // Sorted by name, as the kubelet does.
                "containerStatuses": [status("big", "8"), status("small", "1")],
                "initContainerStatuses": [status("gone", "64"), status("proxy", "2")],
            },
        }));
        assert_eq!(get(&r, "cpu"), 11_000);
    }

    #[test]
    fn overhead_is_added_and_nonsense_fills_the_node() {
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "9e99"}}}],
            "overhead": {"cpu": "250m"},
        }}));
        assert_eq!(get(&r, "cpu"), 1250);
        assert_eq!(get(&r, "memory"), i64::MAX);
    }
}
