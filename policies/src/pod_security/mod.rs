//! The privileges of a pod, found by a walk over the final object: whatever
//! made it, nothing outside Pod Security "restricted" goes unseen.
//!
//! The structs that hold privileges are taken apart field by field, without
//! `..`: a field that a new version of Kubernetes adds does not compile until
//! someone has decided what it is.

mod container;
mod context;
mod volume;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::Privilege;
use container::View;

/// Every privilege that the pod asks for beyond "restricted", in all of its
/// containers, init containers and ephemeral containers.
#[must_use]
pub fn privileges(pod: &Pod) -> BTreeSet<Privilege> {
    let mut found = BTreeSet::new();
    context::annotations(&pod.metadata, &mut found);
    if let Some(spec) = &pod.spec {
        of_spec(spec, &mut found);
    }
    found
}

fn of_spec(spec: &PodSpec, found: &mut BTreeSet<Privilege>) {
    let PodSpec {
        containers,
        init_containers,
        ephemeral_containers,
        host_ipc,
        host_network,
        host_pid,
        security_context,
        volumes,
        // The standards have nothing on these.
        active_deadline_seconds: _,
        affinity: _,
        automount_service_account_token: _,
        dns_config: _,
        dns_policy: _,
        enable_service_links: _,
        eviction_responders: _,
        host_aliases: _,
        host_users: _,
        hostname: _,
        hostname_override: _,
        image_pull_secrets: _,
        node_name: _,
        node_selector: _,
        os: _,
        overhead: _,
        preemption_policy: _,
        priority: _,
        priority_class_name: _,
        readiness_gates: _,
        resource_claims: _,
        resources: _,
        restart_policy: _,
        runtime_class_name: _,
        scheduler_name: _,
        scheduling_gates: _,
        scheduling_group: _,
        service_account: _,
        service_account_name: _,
        set_hostname_as_fqdn: _,
        share_process_namespace: _,
        subdomain: _,
        termination_grace_period_seconds: _,
        tolerations: _,
        topology_spread_constraints: _,
    } = spec;

    for (set, privilege) in [
        (host_network, Privilege::HostNetwork),
        (host_pid, Privilege::HostPid),
        (host_ipc, Privilege::HostIpc),
    ] {
        if *set == Some(true) {
            found.insert(privilege);
        }
    }
    for volume in volumes.iter().flatten() {
        volume::privileges(volume, found);
    }
    let pod = security_context.as_ref();
    context::of_pod(pod, found);
    let containers = containers.iter().chain(init_containers.iter().flatten());
    let ephemeral = ephemeral_containers.iter().flatten();
    let views = containers.map(View::from).chain(ephemeral.map(View::from));
    for view in views {
        container::privileges(&view, pod, found);
    }
}
