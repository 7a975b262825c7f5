//! Privileges that the pod as a whole asks for.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::container::{self, ContainerView};
use super::findings::PrivilegeFindings;
use super::{security_context, volume_kind};
use crate::Privilege;

/// Domains of taints that keep pods off nodes which are the cluster's own, or ill.
const CLUSTER_TAINTS: [&str; 2] = ["node-role.kubernetes.io/", "node.kubernetes.io/"];

pub(super) fn check_spec(spec: &PodSpec, found: &mut PrivilegeFindings) {
    for (set, privilege, field) in [
        (spec.host_network, Privilege::HostNetwork, "hostNetwork"),
        (spec.host_pid, Privilege::HostPid, "hostPID"),
        (spec.host_ipc, Privilege::HostIpc, "hostIPC"),
    ] {
        found.add_if(set == Some(true), privilege, || format!("spec.{field}"));
    }
    if let Some(class) = spec
        .runtime_class_name
        .as_ref()
        .filter(|name| !name.is_empty())
    {
        found.add(
            Privilege::RuntimeClass(class.clone()),
            "spec.runtimeClassName",
        );
    }
    for (at, toleration) in spec.tolerations.iter().flatten().enumerate() {
        if let Some(what) = privileged_toleration(toleration) {
            let path = format!("spec.tolerations[{at}]");
            found.add(Privilege::Toleration(what.to_owned()), path);
        }
    }
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        volume_kind::check_volume(volume, &format!("spec.volumes[{at}]"), found);
    }
    let pod = spec.security_context.as_ref();
    security_context::check_pod_context(pod, found);
    let inits = spec
        .init_containers
        .iter()
        .flatten()
        .map(ContainerView::from);
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(ContainerView::from);
    container::check_containers(
        "containers",
        spec.containers.iter().map(ContainerView::from),
        pod,
        found,
    );
    container::check_containers("initContainers", inits, pod, found);
    container::check_containers("ephemeralContainers", ephemeral, pod, found);
}

/// The key of a toleration that lets a pod onto nodes which are not meant for users' pods. Taints
/// with other keys are the cluster owner's own matter.
fn privileged_toleration(toleration: &Toleration) -> Option<&str> {
    match toleration.key.as_deref().unwrap_or_default() {
        "" => Some("*"),
        key => CLUSTER_TAINTS
            .iter()
            .any(|domain| key.starts_with(domain))
            .then_some(key),
    }
}
