//! Requests of pods, as the kubelet admits them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use trellis_api::Quantity;

/// Amounts in thousandths of the resource's unit.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// Returns the requests of a pod: the greatest need of its start, as Kubernetes counts them
/// (KEP-753). Every running pod also counts as one of `pods`.
pub(crate) fn pod_requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &requests(container));
    }
    // A sidecar runs beside the init containers after it, and beside the containers.
    let mut sidecars = Amounts::new();
    let mut start = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let own = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &own);
            raise(&mut start, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &own);
            raise(&mut start, &beside);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &start);
    // Requests of the pod as a whole replace those of its containers (KEP-2837).
    if let Some(whole) = &spec.resources {
        for (resource, amount) in amounts_or_limits(whole) {
            running.insert(resource, amount);
        }
    }
    if let Some(overhead) = &spec.overhead {
        add(&mut running, &amounts(overhead));
    }
    running.insert("pods".to_owned(), 1000);
    running
}

/// Returns quantities in thousandths. A quantity that does not parse counts as zero, because a
/// finding must not rest on it.
pub(crate) fn amounts(quantities: &BTreeMap<String, RawQuantity>) -> Amounts {
    let amount = |quantity: &RawQuantity| millis(&Quantity::new(quantity.0.as_str()));
    quantities
        .iter()
        .filter_map(|(resource, quantity)| Some((resource.clone(), amount(quantity)?)))
        .collect()
}

/// Returns a quantity in thousandths, at most `i64::MAX`. None: it does not parse.
pub(crate) fn millis(quantity: &Quantity) -> Option<i64> {
    let amount = quantity.amount().ok()?;
    Some(amount.ceil_millis().unwrap_or(i64::MAX))
}

pub(crate) fn add(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        let sum = to.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        let most = to.entry(resource.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

fn requests(container: &Container) -> Amounts {
    container
        .resources
        .as_ref()
        .map(amounts_or_limits)
        .unwrap_or_default()
}

/// A limit without a request is the request.
fn amounts_or_limits(resources: &ResourceRequirements) -> Amounts {
    let mut all = resources.limits.as_ref().map(amounts).unwrap_or_default();
    all.extend(resources.requests.as_ref().map(amounts).unwrap_or_default());
    all
}

/// Writes thousandths as a number of whole units.
pub(crate) fn in_units(thousandths: i64) -> String {
    let whole = thousandths.checked_div(1000).unwrap_or(0);
    match thousandths.checked_rem(1000) {
        Some(0) | None => whole.to_string(),
        Some(rest) => format!("{whole}.{rest:03}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requests_of(spec: Value) -> Amounts {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        pod_requests(&pod)
    }

    #[test]
    fn init_containers_count_by_their_greatest_need_and_sidecars_always() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let spec = json!({
            "containers": [{"name": "a", "resources": cpu("2")}, {"name": "b", "resources": cpu("500m")}],
            "initContainers": [
                {"name": "i", "resources": cpu("3")},
                {"name": "s", "restartPolicy": "Always", "resources": cpu("1")},
                {"name": "j", "resources": cpu("2")},
            ],
            "overhead": {"cpu": "100m"},
        });
        assert_eq!(requests_of(spec)["cpu"], 3600);
    }

    #[test]
    fn limit_without_a_request_counts() {
        let spec = json!({"containers": [
            {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
        ]});
        let requests = requests_of(spec);
        assert_eq!(requests["nvidia.com/gpu"], 8000);
        assert_eq!(requests["pods"], 1000);
    }
}
