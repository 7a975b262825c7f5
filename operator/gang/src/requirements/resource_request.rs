//! Requests and limits of pods, as Kubernetes counts them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use trellis_api::Quantity;
use trellis_api::quantity::Amount;
use trellis_compiler::CompiledGroup;
use trellis_scheduler::{ResourceName, Resources};

use crate::observed::{SlimContainer, SlimContainerStatus, SlimNode, SlimPod};

/// Returns an amount in the resource's base units: thousandths of a core, bytes, or a count.
#[must_use]
pub fn base_units(resource: &str, amount: Amount) -> i64 {
    let units = if resource == "cpu" {
        amount.ceil_millis()
    } else {
        amount.ceil_units()
    };
    units.unwrap_or(i64::MAX)
}

/// Returns a quantity in the resource's base units. A quantity that does not parse counts as more
/// than any node has, so that no other pod is placed on the node.
pub(crate) fn quantity_units(resource: &str, quantity: &Quantity) -> i64 {
    quantity
        .amount()
        .map_or(i64::MAX, |amount| base_units(resource, amount).max(0))
}

fn raw_quantity_units(resource: &str, quantity: &RawQuantity) -> i64 {
    quantity_units(resource, &Quantity::new(quantity.0.as_str()))
}

type ResourceSums = BTreeMap<String, i64>;

fn add_sums(to: &mut ResourceSums, from: &ResourceSums) {
    for (resource, amount) in from {
        let sum = to.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise_to_maximum(to: &mut ResourceSums, from: &ResourceSums) {
    for (resource, amount) in from {
        let most = to.entry(resource.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

fn to_sums(quantities: &BTreeMap<String, RawQuantity>) -> ResourceSums {
    quantities
        .iter()
        .map(|(resource, q)| (resource.clone(), raw_quantity_units(resource, q)))
        .collect()
}

/// One kind of amount of a container: its requests, its limits, what the kubelet has allocated, or
/// what it runs with.
type AmountReader = fn(&SlimContainer, Option<&SlimContainerStatus>, bool) -> ResourceSums;

fn requested_amounts(
    container: &SlimContainer,
    _: Option<&SlimContainerStatus>,
    _: bool,
) -> ResourceSums {
    to_sums(&container.resources.requests)
}

fn limit_amounts(
    container: &SlimContainer,
    _: Option<&SlimContainerStatus>,
    _: bool,
) -> ResourceSums {
    to_sums(&container.resources.limits)
}

fn allocated_amounts(
    container: &SlimContainer,
    status: Option<&SlimContainerStatus>,
    infeasible: bool,
) -> ResourceSums {
    match status.and_then(|s| s.allocated_resources.as_ref()) {
        Some(allocated) => to_sums(allocated),
        None if infeasible => ResourceSums::new(),
        None => to_sums(&container.resources.requests),
    }
}

fn actual_amounts(
    container: &SlimContainer,
    status: Option<&SlimContainerStatus>,
    infeasible: bool,
) -> ResourceSums {
    let runs_with = status.and_then(|s| s.resources.as_ref()?.requests.as_ref());
    match runs_with {
        Some(requests) => to_sums(requests),
        None => allocated_amounts(container, status, infeasible),
    }
}

/// Returns the total of the pod's containers and init containers.
fn sum_containers(pod: &SlimPod, infeasible: bool, read: AmountReader) -> ResourceSums {
    // The kubelet sorts statuses by name, so they are found by name.
    let amounts_of = |container: &SlimContainer, statuses: &[SlimContainerStatus]| {
        let status = statuses.iter().find(|s| s.name == container.name);
        read(container, status, infeasible)
    };
    let containers = pod.spec.containers.iter();
    let containers = containers.map(|c| amounts_of(c, &pod.status.container_statuses));
    let inits = pod.spec.init_containers.iter().map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let statuses = &pod.status.init_container_statuses;
        (is_sidecar, amounts_of(container, statuses))
    });
    trellis_compiler::combine_requests(containers, inits, i64::saturating_add)
}

/// Returns true if the pod has a pending resize that its node can never grant: then the pod will
/// not get the amounts of its spec.
fn has_infeasible_resize(pod: &SlimPod) -> bool {
    let pending = pod.status.conditions.iter();
    pending
        .filter(|c| c.type_ == "PodResizePending")
        .any(|c| c.reason.as_deref() == Some("Infeasible"))
}

/// Returns the request of a pod as kube-scheduler counts it (`PodRequests` of
/// `k8s.io/component-helpers/resource`): the largest of what its containers request, are allocated
/// and run with (KEP-1287), or pod-level resources where they are set (KEP-2837), plus the
/// overhead.
#[must_use]
pub fn pod_request(pod: &SlimPod) -> Resources {
    let (spec, status) = (&pod.spec, &pod.status);
    let infeasible = has_infeasible_resize(pod);
    let running = status.resources.as_ref().and_then(|r| r.requests.as_ref());
    let mut request = match (&status.allocated_resources, running) {
        // The kubelet's totals over all containers.
        (Some(allocated), Some(actual)) => {
            let mut request = to_sums(allocated);
            raise_to_maximum(&mut request, &to_sums(actual));
            request
        }
        _ => {
            let mut request = sum_containers(pod, infeasible, allocated_amounts);
            raise_to_maximum(
                &mut request,
                &sum_containers(pod, infeasible, actual_amounts),
            );
            request
        }
    };
    if !infeasible {
        raise_to_maximum(
            &mut request,
            &sum_containers(pod, infeasible, requested_amounts),
        );
    }
    let mut pod_level = to_sums(&spec.resources.requests);
    if pod_level.keys().any(|r| is_pod_level_resource(r)) && status.resources.is_some() {
        if infeasible {
            pod_level.clear();
        }
        raise_to_maximum(&mut pod_level, &running.map(to_sums).unwrap_or_default());
        raise_to_maximum(
            &mut pod_level,
            &status
                .allocated_resources
                .as_ref()
                .map(to_sums)
                .unwrap_or_default(),
        );
    }
    for (resource, amount) in pod_level
        .into_iter()
        .filter(|(r, _)| is_pod_level_resource(r))
    {
        request.insert(resource, amount);
    }
    add_sums(&mut request, &to_sums(&spec.overhead));
    to_resources(request)
}

/// Returns the limits of a pod as quotas count them (`PodLimits` of
/// `k8s.io/component-helpers/resource`): the overhead is added to resources that have a limit.
#[must_use]
pub fn pod_limits(pod: &SlimPod) -> Resources {
    let mut limits = sum_containers(pod, false, limit_amounts);
    let pod_level = to_sums(&pod.spec.resources.limits);
    limits.extend(
        pod_level
            .into_iter()
            .filter(|(r, _)| is_pod_level_resource(r)),
    );
    let overhead = to_sums(&pod.spec.overhead);
    for (resource, limit) in limits.iter_mut().filter(|(_, limit)| **limit > 0) {
        let extra = overhead.get(resource).copied().unwrap_or(0);
        *limit = limit.saturating_add(extra);
    }
    to_resources(limits)
}

/// Resources that a pod may request as a whole (`IsSupportedPodLevelResource`).
fn is_pod_level_resource(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Returns the request of one pod of the group, before admission.
#[must_use]
pub(crate) fn group_pod_request(group: &CompiledGroup) -> Resources {
    group
        .request()
        .iter()
        .map(|(name, amount)| (ResourceName::new(name.as_str()), base_units(name, *amount)))
        .collect()
}

/// Returns the allocatable resources of a node.
#[must_use]
pub(crate) fn node_allocatable(node: &SlimNode) -> Resources {
    // An amount that does not parse counts as zero.
    let offered = node.status.allocatable.iter().map(|(resource, q)| {
        let units = raw_quantity_units(resource, q);
        (resource.clone(), if units == i64::MAX { 0 } else { units })
    });
    to_resources(offered.collect())
}

/// Returns the resources in the engine's form.
#[must_use]
pub(crate) fn to_resources(sums: BTreeMap<String, i64>) -> Resources {
    sums.into_iter()
        .map(|(name, amount)| (ResourceName::new(name), amount))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(json: serde_json::Value) -> Resources {
        pod_request(&serde_json::from_value(json).unwrap())
    }

    fn get(resources: &Resources, name: &str) -> i64 {
        resources.get(&ResourceName::new(name))
    }

    fn container(cpu: &str) -> serde_json::Value {
        serde_json::json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn request_is_the_larger_of_container_sum_and_init_container() {
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [container("1"), container("500m")],
            "initContainers": [container("1"), container("2")],
        }}));
        assert_eq!(get(&r, "cpu"), 2000);
    }

    #[test]
    fn sidecar_request_adds_to_later_containers() {
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = "Always".into();
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [container("1")],
            "initContainers": [sidecar, container("3")],
        }}));
        assert_eq!(get(&r, "cpu"), 4000);
    }

    #[test]
    fn resized_pod_counts_with_its_largest_amount() {
        let r = pod(
            serde_json::json!({"metadata": {}, "spec": {"containers": [container("1")]},
            "status": {"containerStatuses": [{"allocatedResources": {"cpu": "2"}}]}}),
        );
        assert_eq!(get(&r, "cpu"), 2000);
    }

    #[test]
    fn pod_resize_counts_as_in_kubernetes() {
        let named =
            |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let status = |name: &str, allocated: &str, actual: Value| json!({"name": name, "allocatedResources": {"cpu": allocated}, "resources": actual});
        let runs = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let cpu = |spec: Value, status: Value| {
            get(
                &pod(json!({"metadata": {}, "spec": spec, "status": status})),
                "cpu",
            )
        };
        let two = json!({"containers": [named("a", "3"), named("b", "1")]});
        // One container grows while the other shrinks: the totals are compared, not the single
        // containers.
        let swapped = json!({"containerStatuses": [
            status("a", "1", runs("1")), status("b", "3", runs("3")),
        ]});
        assert_eq!(cpu(two.clone(), swapped), 4000);
        // Less is allocated, but the container still runs with more.
        let shrinking = json!({"containerStatuses": [
            status("a", "3", runs("5")), status("b", "1", json!({})),
        ]});
        assert_eq!(cpu(two.clone(), shrinking), 6000);
        // A resize that the node can never grant does not count.
        let infeasible = json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [status("a", "1", runs("1")), status("b", "1", runs("1"))],
        });
        assert_eq!(cpu(two.clone(), infeasible), 2000);
        let deferred = json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            "containerStatuses": [status("a", "1", runs("1")), status("b", "1", runs("1"))],
        });
        assert_eq!(cpu(two, deferred), 4000);
    }

    #[test]
    fn pod_level_resources_replace_container_requests() {
        let pod = |spec: Value, status: Value| {
            let mut pod_spec = json!({"containers": [container("4")], "overhead": {"cpu": "250m"}});
            pod_spec
                .as_object_mut()
                .unwrap()
                .extend(spec.as_object().unwrap().clone());
            pod(json!({"metadata": {}, "spec": pod_spec, "status": status}))
        };
        let request_with_status =
            json!({"resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}});
        let request_with_status = |status: Value| pod(request_with_status.clone(), status);
        assert_eq!(get(&request_with_status(json!({})), "cpu"), 2250);
        // A pod cannot request devices as a whole.
        assert_eq!(get(&request_with_status(json!({})), "nvidia.com/gpu"), 0);
        let resized = json!({
            "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "1"}},
        });
        assert_eq!(get(&request_with_status(resized), "cpu"), 3250);
        // Requests of the containers, as the kubelet adds them up.
        let running = json!({
            "allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "6"}},
        });
        assert_eq!(get(&pod(json!({}), running), "cpu"), 6250);
    }

    #[test]
    fn container_status_is_matched_by_container_name() {
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
    fn overhead_is_added_and_invalid_quantity_fills_the_node() {
        let r = pod(serde_json::json!({"metadata": {}, "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "9e99"}}}],
            "overhead": {"cpu": "250m"},
        }}));
        assert_eq!(get(&r, "cpu"), 1250);
        assert_eq!(get(&r, "memory"), i64::MAX);
    }

    #[test]
    fn pod_limits_include_overhead_only_for_limited_resources() {
        let limited = |cpu: &str, policy: Value| json!({"resources": {"limits": {"cpu": cpu}}, "restartPolicy": policy});
        let limits = |more: Value| {
            let mut spec = json!({
                "containers": [limited("2", json!(null)), {"resources": {"requests": {"memory": "1Gi"}}}],
                "initContainers": [limited("1", json!("Always")), limited("4", json!(null))],
                "overhead": {"cpu": "250m", "memory": "1Mi"},
            });
            spec.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            pod_limits(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap())
        };
        let plain = limits(json!({}));
        assert_eq!((get(&plain, "cpu"), get(&plain, "memory")), (5250, 0));
        let pod_level = limits(json!({"resources": {"limits": {"cpu": "3"}}}));
        assert_eq!(get(&pod_level, "cpu"), 3250);
    }
}
