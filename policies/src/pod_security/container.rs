//! Privileges that one container asks for.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EphemeralContainer, Lifecycle, LifecycleHandler,
    PodSecurityContext, Probe, SecurityContext, VolumeMount,
};

use super::findings::PrivilegeFindings;
use super::security_context;
use crate::Privilege;

/// The one capability that "restricted" lets containers add.
const ALLOWED_CAPABILITY: &str = "NET_BIND_SERVICE";

/// Fields of every kind of container that can ask for privileges.
pub(super) struct ContainerView<'a> {
    security_context: Option<&'a SecurityContext>,
    ports: &'a [ContainerPort],
    mounts: &'a [VolumeMount],
    lifecycle: Option<&'a Lifecycle>,
    probes: [(&'static str, Option<&'a Probe>); 3],
}

/// The same fields of both kinds of containers.
macro_rules! view {
    ($($type:ident),+) => {$(
        impl<'a> From<&'a $type> for ContainerView<'a> {
            fn from(container: &'a $type) -> Self {
                Self {
                    security_context: container.security_context.as_ref(),
                    ports: container.ports.as_deref().unwrap_or_default(),
                    mounts: container.volume_mounts.as_deref().unwrap_or_default(),
                    lifecycle: container.lifecycle.as_ref(),
                    probes: [
                        ("livenessProbe", container.liveness_probe.as_ref()),
                        ("readinessProbe", container.readiness_probe.as_ref()),
                        ("startupProbe", container.startup_probe.as_ref()),
                    ],
                }
            }
        }
    )+};
}

view!(Container, EphemeralContainer);

pub(super) fn check_containers<'a>(
    kind: &str,
    all: impl Iterator<Item = ContainerView<'a>>,
    pod: Option<&PodSecurityContext>,
    found: &mut PrivilegeFindings,
) {
    for (at, view) in all.enumerate() {
        check_container(&view, pod, &format!("spec.{kind}[{at}]"), found);
    }
}

fn check_container(
    view: &ContainerView<'_>,
    pod: Option<&PodSecurityContext>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    for (at, port) in view.ports.iter().enumerate() {
        let of_host = port.host_port.is_some_and(|number| number != 0)
            || port.host_ip.as_ref().is_some_and(|ip| !ip.is_empty());
        found.add_if(of_host, Privilege::HostPort, || {
            format!("{path}.ports[{at}].hostPort")
        });
    }
    for (at, mount) in view.mounts.iter().enumerate() {
        let propagation = mount.mount_propagation.as_deref().unwrap_or_default();
        let leaves = !matches!(propagation, "" | "None" | "HostToContainer");
        found.add_if(leaves, Privilege::MountPropagation, || {
            format!("{path}.volumeMounts[{at}].mountPropagation")
        });
    }
    if let Some(Lifecycle {
        post_start,
        pre_stop,
        ..
    }) = view.lifecycle
    {
        for (name, hook) in [("postStart", post_start), ("preStop", pre_stop)] {
            let leaves = hook.as_ref().is_some_and(hook_leaves_pod);
            found.add_if(leaves, Privilege::HostProbe, || {
                format!("{path}.lifecycle.{name}")
            });
        }
    }
    for (name, probe) in view.probes {
        let leaves = probe.is_some_and(probe_leaves_pod);
        found.add_if(leaves, Privilege::HostProbe, || format!("{path}.{name}"));
    }
    let absent = SecurityContext::default();
    let context = view.security_context.unwrap_or(&absent);
    check_security_context(context, pod, &format!("{path}.securityContext"), found);
}

fn check_security_context(
    context: &SecurityContext,
    pod: Option<&PodSecurityContext>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    security_context::check_app_armor(context.app_armor_profile.as_ref(), path, found);
    security_context::check_se_linux(context.se_linux_options.as_ref(), path, found);
    security_context::check_windows_options(context.windows_options.as_ref(), path, found);
    check_capabilities(context.capabilities.as_ref(), path, found);

    let non_root = context
        .run_as_non_root
        .or_else(|| pod.and_then(|p| p.run_as_non_root));
    let user = context
        .run_as_user
        .or_else(|| pod.and_then(|p| p.run_as_user));
    let seccomp = context
        .seccomp_profile
        .as_ref()
        .or_else(|| pod.and_then(|p| p.seccomp_profile.as_ref()));
    for (asked, privilege, field) in [
        (user == Some(0), Privilege::RunAsRoot, "runAsUser"),
        (non_root != Some(true), Privilege::RunAsRoot, "runAsNonRoot"),
        (
            context.allow_privilege_escalation != Some(false),
            Privilege::PrivilegeEscalation,
            "allowPrivilegeEscalation",
        ),
        (
            context.privileged == Some(true),
            Privilege::Privileged,
            "privileged",
        ),
        (
            !matches!(context.proc_mount.as_deref(), None | Some("" | "Default")),
            Privilege::ProcMount,
            "procMount",
        ),
        (
            !seccomp.is_some_and(security_context::is_confined),
            Privilege::Seccomp,
            "seccompProfile",
        ),
    ] {
        found.add_if(asked, privilege, || format!("{path}.{field}"));
    }
}

fn check_capabilities(
    capabilities: Option<&Capabilities>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    let added = capabilities.iter().flat_map(|c| c.add.iter().flatten());
    for name in added.filter(|name| *name != ALLOWED_CAPABILITY) {
        found.add(
            Privilege::Capability(name.clone()),
            format!("{path}.capabilities.add"),
        );
    }
    let mut dropped = capabilities.iter().flat_map(|c| c.drop.iter().flatten());
    let keeps = !dropped.any(|name| name == "ALL");
    found.add_if(keeps, Privilege::DefaultCapabilities, || {
        format!("{path}.capabilities.drop")
    });
}

fn probe_leaves_pod(probe: &Probe) -> bool {
    let http = probe.http_get.as_ref().map(|action| &action.host);
    let tcp = probe.tcp_socket.as_ref().map(|action| &action.host);
    is_host_set(http) || is_host_set(tcp)
}

fn hook_leaves_pod(hook: &LifecycleHandler) -> bool {
    let http = hook.http_get.as_ref().map(|action| &action.host);
    let tcp = hook.tcp_socket.as_ref().map(|action| &action.host);
    is_host_set(http) || is_host_set(tcp)
}

fn is_host_set(host: Option<&Option<String>>) -> bool {
    host.and_then(Option::as_ref).is_some_and(|h| !h.is_empty())
}
