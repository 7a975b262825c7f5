//! Merges one pod spec into another as a strategic merge patch does: objects by field, lists by the
//! key of their items. A volume, variable, mount, probe or resource list is replaced as a whole,
//! because half of each would make no valid one.

use k8s_openapi::DeepMerge as _;
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Merges `over` into `under`. Fields that are set in `over` win.
pub(super) fn merge_spec(under: &mut PodSpec, mut over: PodSpec) {
    remove_replaced_items(&mut under.volumes, &over.volumes, |v| &v.name);
    for container in &mut over.containers {
        remove_replaced_fields(&mut under.containers, container);
    }
    for container in over.init_containers.iter_mut().flatten() {
        remove_replaced_fields(
            under.init_containers.as_mut().unwrap_or(&mut Vec::new()),
            container,
        );
    }
    if let Some(mut labels) = under.node_selector.take() {
        labels.extend(over.node_selector.take().unwrap_or_default());
        over.node_selector = Some(labels);
    }
    if let Some(mut tolerations) = under.tolerations.take() {
        for toleration in over.tolerations.take().unwrap_or_default() {
            if !tolerations.contains(&toleration) {
                tolerations.push(toleration);
            }
        }
        over.tolerations = Some(tolerations);
    }
    under.merge_from(over);
}

/// Removes the parts of the container below that `over` replaces as a whole.
fn remove_replaced_fields(under: &mut [Container], over: &mut Container) {
    let Some(under) = under.iter_mut().find(|c| c.name == over.name) else {
        return;
    };
    remove_replaced_items(&mut under.env, &over.env, |v| &v.name);
    remove_replaced_items(&mut under.volume_mounts, &over.volume_mounts, |m| {
        &m.mount_path
    });
    remove_replaced_items(&mut under.volume_devices, &over.volume_devices, |d| {
        &d.device_path
    });
    remove_replaced_items(&mut under.ports, &over.ports, |p| &p.container_port);
    if let Some(mut sources) = under.env_from.take() {
        sources.extend(over.env_from.take().unwrap_or_default());
        over.env_from = Some(sources);
    }
    for (under, over) in [
        (&mut under.liveness_probe, &over.liveness_probe),
        (&mut under.readiness_probe, &over.readiness_probe),
        (&mut under.startup_probe, &over.startup_probe),
    ] {
        if over.is_some() {
            *under = None;
        }
    }
    if over.lifecycle.is_some() {
        under.lifecycle = None;
    }
    // Otherwise a request of one could remain beside a limit of the other.
    if over.resources.is_some() {
        under.resources = None;
    }
}

/// Removes the items whose keys are in `over`.
fn remove_replaced_items<T, K: PartialEq>(
    under: &mut Option<Vec<T>>,
    over: &Option<Vec<T>>,
    key: impl Fn(&T) -> &K,
) {
    if let (Some(under), Some(over)) = (under, over) {
        under.retain(|item| over.iter().all(|other| key(other) != key(item)));
    }
}
