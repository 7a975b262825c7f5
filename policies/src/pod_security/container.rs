//! What one container asks for.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EphemeralContainer, Lifecycle, LifecycleHandler,
    PodSecurityContext, Probe, SecurityContext,
};

use super::context;
use crate::Privilege;

/// The one capability that "restricted" lets containers add.
const BIND: &str = "NET_BIND_SERVICE";

/// What containers of every kind have that privileges can hide in.
pub(super) struct View<'a> {
    security_context: Option<&'a SecurityContext>,
    ports: &'a [ContainerPort],
    lifecycle: Option<&'a Lifecycle>,
    probes: [Option<&'a Probe>; 3],
}

/// Takes a container apart; both kinds have these fields, and these alone.
macro_rules! view {
    ($container:expr, $type:ident { $($own:ident),* }) => {{
        let $type {
            security_context,
            ports,
            lifecycle,
            liveness_probe,
            readiness_probe,
            startup_probe,
            // The standards have nothing on these.
            args: _,
            command: _,
            env: _,
            env_from: _,
            image: _,
            image_pull_policy: _,
            name: _,
            resize_policy: _,
            resources: _,
            restart_policy: _,
            restart_policy_rules: _,
            stdin: _,
            stdin_once: _,
            termination_message_path: _,
            termination_message_policy: _,
            tty: _,
            volume_devices: _,
            volume_mounts: _,
            working_dir: _,
            $($own: _),*
        } = $container;
        View {
            security_context: security_context.as_ref(),
            ports: ports.as_deref().unwrap_or_default(),
            lifecycle: lifecycle.as_ref(),
            probes: [
                liveness_probe.as_ref(),
                readiness_probe.as_ref(),
                startup_probe.as_ref(),
            ],
        }
    }};
}

impl<'a> From<&'a Container> for View<'a> {
    fn from(container: &'a Container) -> Self {
        view!(container, Container {})
    }
}

impl<'a> From<&'a EphemeralContainer> for View<'a> {
    fn from(container: &'a EphemeralContainer) -> Self {
        view!(
            container,
            EphemeralContainer {
                target_container_name
            }
        )
    }
}

pub(super) fn privileges(
    view: &View<'_>,
    pod: Option<&PodSecurityContext>,
    found: &mut BTreeSet<Privilege>,
) {
    let is_host_port = |port: &ContainerPort| port.host_port.is_some_and(|number| number != 0);
    if view.ports.iter().any(is_host_port) {
        found.insert(Privilege::HostPort);
    }
    let hooks = view.lifecycle.iter().flat_map(|l| {
        let Lifecycle {
            post_start,
            pre_stop,
            stop_signal: _,
        } = l;
        [post_start, pre_stop]
    });
    let probes = view.probes.iter().flatten();
    if hooks.flatten().any(hook_leaves_pod) || probes.into_iter().any(|p| probe_leaves_pod(p)) {
        found.insert(Privilege::HostProbe);
    }
    let absent = SecurityContext::default();
    of_context(view.security_context.unwrap_or(&absent), pod, found);
}

fn of_context(
    context: &SecurityContext,
    pod: Option<&PodSecurityContext>,
    found: &mut BTreeSet<Privilege>,
) {
    let SecurityContext {
        allow_privilege_escalation,
        app_armor_profile,
        capabilities,
        privileged,
        proc_mount,
        run_as_non_root,
        run_as_user,
        se_linux_options,
        seccomp_profile,
        windows_options,
        // The standards have nothing on these.
        read_only_root_filesystem: _,
        run_as_group: _,
    } = context;

    context::app_armor(app_armor_profile.as_ref(), found);
    context::se_linux(se_linux_options.as_ref(), found);
    context::windows(windows_options.as_ref(), found);
    of_capabilities(capabilities.as_ref(), found);

    let non_root = run_as_non_root.or_else(|| pod.and_then(|p| p.run_as_non_root));
    let user = run_as_user.or_else(|| pod.and_then(|p| p.run_as_user));
    let seccomp = seccomp_profile
        .as_ref()
        .or_else(|| pod.and_then(|p| p.seccomp_profile.as_ref()));
    for (asked, privilege) in [
        (
            non_root != Some(true) || user == Some(0),
            Privilege::RunAsRoot,
        ),
        (
            *allow_privilege_escalation != Some(false),
            Privilege::PrivilegeEscalation,
        ),
        (*privileged == Some(true), Privilege::Privileged),
        (
            !matches!(proc_mount.as_deref(), None | Some("" | "Default")),
            Privilege::ProcMount,
        ),
        (
            !seccomp.is_some_and(context::is_confined),
            Privilege::Seccomp,
        ),
    ] {
        if asked {
            found.insert(privilege);
        }
    }
}

fn of_capabilities(capabilities: Option<&Capabilities>, found: &mut BTreeSet<Privilege>) {
    let added = capabilities.iter().flat_map(|c| c.add.iter().flatten());
    found.extend(
        added
            .filter(|name| *name != BIND)
            .map(|name| Privilege::Capability(name.clone())),
    );
    let mut dropped = capabilities.iter().flat_map(|c| c.drop.iter().flatten());
    if !dropped.any(|name| name == "ALL") {
        found.insert(Privilege::DefaultCapabilities);
    }
}

fn probe_leaves_pod(probe: &Probe) -> bool {
    let http = probe.http_get.as_ref().map(|action| &action.host);
    let tcp = probe.tcp_socket.as_ref().map(|action| &action.host);
    names_host(http) || names_host(tcp)
}

fn hook_leaves_pod(hook: &LifecycleHandler) -> bool {
    let http = hook.http_get.as_ref().map(|action| &action.host);
    let tcp = hook.tcp_socket.as_ref().map(|action| &action.host);
    names_host(http) || names_host(tcp)
}

fn names_host(host: Option<&Option<String>>) -> bool {
    host.and_then(Option::as_ref).is_some_and(|h| !h.is_empty())
}
