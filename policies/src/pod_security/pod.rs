//! Privileges that the pod as a whole asks for.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::container::{self, View};
use super::found::Found;
use super::{context, volume};
use crate::Privilege;

/// Domains of taints that keep pods off nodes which are the cluster's own, or ill.
const CLUSTERS_TAINTS: [&str; 2] = ["node-role.kubernetes.io/", "node.kubernetes.io/"];

pub(super) fn of_spec(spec: &PodSpec, found: &mut Found) {
    for (set, privilege, field) in [
        (spec.host_network, Privilege::HostNetwork, "hostNetwork"),
        (spec.host_pid, Privilege::HostPid, "hostPID"),
        (spec.host_ipc, Privilege::HostIpc, "hostIPC"),
    ] {
        found.given(set == Some(true), privilege, || format!("spec.{field}"));
    }
    if let Some(class) = spec
        .runtime_class_name
        .as_ref()
        .filter(|name| !name.is_empty())
    {
        found.privilege(
            Privilege::RuntimeClass(class.clone()),
            "spec.runtimeClassName",
        );
    }
    for (at, toleration) in spec.tolerations.iter().flatten().enumerate() {
        if let Some(what) = of_toleration(toleration) {
            let path = format!("spec.tolerations[{at}]");
            found.privilege(Privilege::Toleration(what.to_owned()), path);
        }
    }
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        volume::of_volume(volume, &format!("spec.volumes[{at}]"), found);
    }
    let pod = spec.security_context.as_ref();
    context::of_pod(pod, found);
    let inits = spec.init_containers.iter().flatten().map(View::from);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(View::from);
    container::of_containers(
        "containers",
        spec.containers.iter().map(View::from),
        pod,
        found,
    );
    container::of_containers("initContainers", inits, pod, found);
    container::of_containers("ephemeralContainers", ephemeral, pod, found);
}

/// The key of a toleration that lets a pod onto nodes which are not meant for users' pods. Taints
/// with other keys are the cluster owner's own matter.
fn of_toleration(toleration: &Toleration) -> Option<&str> {
    match toleration.key.as_deref().unwrap_or_default() {
        "" => Some("*"),
        key => CLUSTERS_TAINTS
            .iter()
            .any(|domain| key.starts_with(domain))
            .then_some(key),
    }
}
