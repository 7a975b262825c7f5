//! What pods and containers say in a security context.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, SELinuxOptions, SeccompProfile,
    WindowsSecurityContextOptions,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Privilege;

/// Kernel parameters that are isolated between pods and harmless to the node.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// SELinux types of containers. Absent and empty is the runtime's own.
const SELINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// AppArmor's form before Kubernetes 1.30, one annotation a container.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn of_pod(context: Option<&PodSecurityContext>, found: &mut BTreeSet<Privilege>) {
    let Some(context) = context else {
        return;
    };
    let PodSecurityContext {
        app_armor_profile,
        run_as_non_root,
        run_as_user,
        se_linux_options,
        seccomp_profile,
        sysctls,
        windows_options,
        // The standards have nothing on these.
        fs_group: _,
        fs_group_change_policy: _,
        run_as_group: _,
        se_linux_change_policy: _,
        supplemental_groups: _,
        supplemental_groups_policy: _,
    } = context;

    app_armor(app_armor_profile.as_ref(), found);
    se_linux(se_linux_options.as_ref(), found);
    windows(windows_options.as_ref(), found);
    if *run_as_non_root == Some(false) || *run_as_user == Some(0) {
        found.insert(Privilege::RunAsRoot);
    }
    if seccomp_profile.as_ref().is_some_and(|p| !is_confined(p)) {
        found.insert(Privilege::Seccomp);
    }
    found.extend(
        sysctls
            .iter()
            .flatten()
            .filter(|sysctl| !SAFE_SYSCTLS.contains(&sysctl.name.as_str()))
            .map(|sysctl| Privilege::Sysctl(sysctl.name.clone())),
    );
}

pub(super) fn annotations(metadata: &ObjectMeta, found: &mut BTreeSet<Privilege>) {
    let weakens = metadata.annotations.iter().flatten().any(|(key, profile)| {
        key.starts_with(APPARMOR_ANNOTATION)
            && !(profile.is_empty()
                || profile == "runtime/default"
                || profile.starts_with("localhost/"))
    });
    if weakens {
        found.insert(Privilege::AppArmor);
    }
}

pub(super) fn app_armor(profile: Option<&AppArmorProfile>, found: &mut BTreeSet<Privilege>) {
    if profile.is_some_and(|p| !is_default_or_localhost(&p.type_)) {
        found.insert(Privilege::AppArmor);
    }
}

pub(super) fn se_linux(options: Option<&SELinuxOptions>, found: &mut BTreeSet<Privilege>) {
    let Some(SELinuxOptions {
        level: _,
        role,
        type_,
        user,
    }) = options
    else {
        return;
    };
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
    let type_ = type_.as_deref().unwrap_or_default();
    if is_set(role) || is_set(user) || !SELINUX_TYPES.contains(&type_) {
        found.insert(Privilege::SeLinux);
    }
}

pub(super) fn windows(
    options: Option<&WindowsSecurityContextOptions>,
    found: &mut BTreeSet<Privilege>,
) {
    if options.is_some_and(|o| o.host_process == Some(true)) {
        found.insert(Privilege::HostProcess);
    }
}

pub(super) fn is_confined(profile: &SeccompProfile) -> bool {
    is_default_or_localhost(&profile.type_)
}

fn is_default_or_localhost(profile_type: &str) -> bool {
    matches!(profile_type, "RuntimeDefault" | "Localhost")
}
