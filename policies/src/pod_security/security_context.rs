//! Privileges in the security contexts of pods and containers.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, SELinuxOptions, SeccompProfile,
    WindowsSecurityContextOptions,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::findings::PrivilegeFindings;
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

/// Annotations that tell autoscalers to leave the pod alone: Trellis sets them itself.
const HARMLESS_ANNOTATIONS: [&str; 2] = [
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
];
/// Domains of annotations that describe a pod, its origin, metrics or logs. No component grants a
/// pod any power because of them.
const HARMLESS_DOMAINS: [&str; 7] = [
    "app.kubernetes.io",
    "argocd.argoproj.io",
    "fluentbit.io",
    "helm.sh",
    "meta.helm.sh",
    "prometheus.io",
    // Only the operator writes these.
    "trellis.dev",
];

pub(super) fn check_pod_context(
    context: Option<&PodSecurityContext>,
    found: &mut PrivilegeFindings,
) {
    let Some(context) = context else {
        return;
    };
    let path = "spec.securityContext";
    check_app_armor(context.app_armor_profile.as_ref(), path, found);
    check_se_linux(context.se_linux_options.as_ref(), path, found);
    check_windows_options(context.windows_options.as_ref(), path, found);
    let unconfined = context
        .seccomp_profile
        .as_ref()
        .is_some_and(|p| !is_confined(p));
    for (asked, privilege, field) in [
        (
            context.run_as_non_root == Some(false),
            Privilege::RunAsRoot,
            "runAsNonRoot",
        ),
        (
            context.run_as_user == Some(0),
            Privilege::RunAsRoot,
            "runAsUser",
        ),
        (unconfined, Privilege::Seccomp, "seccompProfile"),
    ] {
        found.add_if(asked, privilege, || format!("{path}.{field}"));
    }
    for (at, sysctl) in context.sysctls.iter().flatten().enumerate() {
        if !SAFE_SYSCTLS.contains(&sysctl.name.as_str()) {
            let path = format!("{path}.sysctls[{at}]");
            found.add(Privilege::Sysctl(sysctl.name.clone()), path);
        }
    }
}

pub(super) fn check_annotations(metadata: &ObjectMeta, found: &mut PrivilegeFindings) {
    for (key, value) in metadata.annotations.iter().flatten() {
        let path = || format!("metadata.annotations[{key:?}]");
        if key.starts_with(APPARMOR_ANNOTATION) {
            let weakens = !(value.is_empty()
                || value == "runtime/default"
                || value.starts_with("localhost/"));
            found.add_if(weakens, Privilege::AppArmor, path);
        } else {
            found.add_if(
                can_affect_cluster(key),
                Privilege::Annotation(key.clone()),
                path,
            );
        }
    }
}

/// True if an annotation may make a component of the cluster act: some annotations attach networks,
/// devices or cloud permissions, or add containers and mounts that no policy has seen. The meaning
/// of a domain differs by cluster, so policies must permit each annotation that is not known to be
/// harmless.
fn can_affect_cluster(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, _)) => {
            !HARMLESS_DOMAINS.contains(&domain) && !HARMLESS_ANNOTATIONS.contains(&key)
        }
        // Runtimes read their settings by keys such as io.katacontainers.config and run.oci.
        None => key.contains('.'),
    }
}

pub(super) fn check_app_armor(
    profile: Option<&AppArmorProfile>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    let weakens = profile.is_some_and(|p| !is_default_or_localhost(&p.type_));
    found.add_if(weakens, Privilege::AppArmor, || {
        format!("{path}.appArmorProfile")
    });
}

pub(super) fn check_se_linux(
    options: Option<&SELinuxOptions>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    let Some(options) = options else {
        return;
    };
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
    let type_ = options.type_.as_deref().unwrap_or_default();
    let weakens = is_set(&options.role) || is_set(&options.user) || !SELINUX_TYPES.contains(&type_);
    found.add_if(weakens, Privilege::SeLinux, || {
        format!("{path}.seLinuxOptions")
    });
}

pub(super) fn check_windows_options(
    options: Option<&WindowsSecurityContextOptions>,
    path: &str,
    found: &mut PrivilegeFindings,
) {
    let of_host = options.is_some_and(|o| o.host_process == Some(true));
    found.add_if(of_host, Privilege::HostProcess, || {
        format!("{path}.windowsOptions.hostProcess")
    });
}

pub(super) fn is_confined(profile: &SeccompProfile) -> bool {
    is_default_or_localhost(&profile.type_)
}

fn is_default_or_localhost(profile_type: &str) -> bool {
    matches!(profile_type, "RuntimeDefault" | "Localhost")
}
