//! A container other than the task group's own: an init container, a sidecar, or another.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use super::{MAIN_CONTAINER, TemplateViolations};
use crate::{Quantity, rules};

/// Resources that each such container must limit, as the task group does for its own.
const LIMITED_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Checks that a container can use no more than policies, placement and quota account for.
///
/// A container without an image patches a container of the profile. It inherits that container's
/// resources unless it states its own.
pub(super) fn check_resources(container: &Container, path: &str, found: &mut TemplateViolations) {
    let Some(resources) = &container.resources else {
        if container.image.is_some() {
            check_limits(None, path, found);
        }
        return;
    };
    if resources.claims.is_some() {
        let message = "needs dynamic resource allocation, which Trellis does not do: leave it out";
        found.add(format!("{path}.resources.claims"), message);
    }
    check_limits(resources.limits.as_ref(), path, found);
    for (name, limit) in resources.limits.iter().flatten() {
        check_amount(
            name,
            limit,
            format!("{path}.resources.limits.{name}"),
            found,
        );
    }
    for (name, request) in resources.requests.iter().flatten() {
        let limit = resources.limits.as_ref().and_then(|all| all.get(name));
        let is_missing = limit.is_none() && LIMITED_RESOURCES.contains(&name.as_str());
        if is_missing || limit.is_some_and(|limit| is_same_amount(request, limit)) {
            continue;
        }
        let message = format!(
            "must be the same as limits.{name}, since no more may be used than is counted: leave requests out, and set limits"
        );
        found.add(format!("{path}.resources.requests.{name}"), message);
    }
}

fn check_limits(
    limits: Option<&BTreeMap<String, Written>>,
    path: &str,
    found: &mut TemplateViolations,
) {
    let mut missing = LIMITED_RESOURCES.to_vec();
    missing.retain(|name| limits.is_none_or(|limits| !limits.contains_key(*name)));
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        let message = format!(
            "must name {missing}, by which a container beside {} is judged, placed and charged: add {missing}, such as {{cpu: 500m, memory: 256Mi}}",
            MAIN_CONTAINER
        );
        found.add(format!("{path}.resources.limits"), message);
    }
}

fn check_amount(name: &str, written: &Written, path: String, found: &mut TemplateViolations) {
    let quantity = Quantity::new(written.0.as_str());
    match name {
        "cpu" => found.add_result(path, rules::cpu(&quantity, &())),
        "memory" | "ephemeral-storage" => found.add_result(path, rules::memory(&quantity, &())),
        _ => found.add(path, "is no cpu, memory or ephemeral-storage: devices are the main container's, by gpus and resources.limits of the task group"),
    }
}

fn is_same_amount(one: &Written, other: &Written) -> bool {
    let of = |written: &Written| Quantity::new(written.0.as_str()).amount();
    one == other || of(one).is_ok_and(|one| of(other).is_ok_and(|other| one == other))
}
