//! Privileges of a pod beyond the level "restricted" of the Pod Security Standards, and other
//! powers that users' pods do not need.

use std::fmt;

/// One privilege, named after the control of the Pod Security Standards that it breaks
/// (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>), or after its effect if
/// the standards do not cover it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// A process that may be root in its container.
    RunAsRoot,
    /// A process that may gain more than its parent has.
    PrivilegeEscalation,
    /// A container with all that the node has.
    Privileged,
    /// A Linux capability that is added, such as `IPC_LOCK`.
    Capability(String),
    /// The runtime's default capabilities: they are not all dropped.
    DefaultCapabilities,
    /// The node's network.
    HostNetwork,
    /// The node's processes.
    HostPid,
    /// The node's shared memory and semaphores.
    HostIpc,
    /// A folder of the node.
    HostPath,
    /// A port of the node.
    HostPort,
    /// A probe or hook that the kubelet sends elsewhere.
    HostProbe,
    /// A Windows container that runs on the host.
    HostProcess,
    /// A /proc without its masks.
    ProcMount,
    /// A kernel parameter that is not on Kubernetes' safe list.
    Sysctl(String),
    /// System calls that the runtime's default profile refuses.
    Seccomp,
    /// An AppArmor profile that protects less than the default.
    AppArmor,
    /// SELinux options that protect less than the default.
    SeLinux,
    /// A kind of volume that is not on the list of "restricted".
    Volume(String),
    /// An inline volume of a CSI driver, whose parameters the pod sets.
    Csi(String),
    /// Mounts that are seen on the node.
    MountPropagation,
    /// A RuntimeClass: another runtime than the nodes' usual one.
    RuntimeClass(String),
    /// A toleration for control-plane or unhealthy nodes; `*`: for every node.
    Toleration(String),
    /// An annotation that is not known to be harmless: components of the cluster may act upon it.
    Annotation(String),
}

impl Privilege {
    /// How to do without it, as fields of a pod.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::RunAsRoot => "set runAsNonRoot to true, and no runAsUser of 0",
            Self::PrivilegeEscalation => "set allowPrivilegeEscalation to false",
            Self::Privileged => "set privileged to false",
            Self::Capability(_) => "do not add the capability",
            Self::DefaultCapabilities => "drop the capabilities ALL",
            Self::HostNetwork => "do not set hostNetwork",
            Self::HostPid => "do not set hostPID",
            Self::HostIpc => "do not set hostIPC",
            Self::HostPath => "mount a claim instead of a hostPath",
            Self::HostPort => "do not set hostPort",
            Self::HostProbe => "do not set host in probes and lifecycle hooks",
            Self::HostProcess => "do not set windowsOptions.hostProcess",
            Self::ProcMount => "do not set procMount",
            Self::Sysctl(_) => "do not set the sysctl",
            Self::Seccomp => "set seccompProfile.type to RuntimeDefault",
            Self::AppArmor => "do not set an AppArmor profile",
            Self::SeLinux => "do not set seLinuxOptions",
            Self::Volume(_) => {
                "use a claim, configMap, secret, projected, downwardAPI or emptyDir volume"
            }
            Self::Csi(_) => "mount a claim instead of a csi volume",
            Self::MountPropagation => "do not set mountPropagation to Bidirectional",
            Self::RuntimeClass(_) => "do not set runtimeClassName",
            Self::Toleration(_) => "do not tolerate it",
            Self::Annotation(_) => {
                "do not set the annotation, or give it a key without domain and dots"
            }
        }
    }
}

impl Privilege {
    /// Name of the privilege in policies. It is the name in messages, except for capabilities whose
    /// name could be confused with another privilege.
    #[must_use]
    pub fn policy_name(&self) -> String {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        match self {
            Self::Capability(name) if !name.chars().all(plain) => format!("capability {name}"),
            other => other.to_string(),
        }
    }
}

/// The name, as messages bear it.
impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RunAsRoot => "RunAsRoot",
            Self::PrivilegeEscalation => "allowPrivilegeEscalation",
            Self::Privileged => "privileged",
            Self::Capability(name) => name,
            Self::DefaultCapabilities => "defaultCapabilities",
            Self::HostNetwork => "hostNetwork",
            Self::HostPid => "hostPID",
            Self::HostIpc => "hostIPC",
            Self::HostPath => "hostPath",
            Self::HostPort => "hostPort",
            Self::HostProbe => "hostProbe",
            Self::HostProcess => "hostProcess",
            Self::ProcMount => "procMount",
            Self::Sysctl(name) => return write!(f, "sysctl {name}"),
            Self::Seccomp => "seccomp",
            Self::AppArmor => "appArmor",
            Self::SeLinux => "seLinux",
            Self::Volume(kind) => return write!(f, "volume {kind}"),
            Self::Csi(driver) => return write!(f, "csi {driver}"),
            Self::MountPropagation => "mountPropagation",
            Self::RuntimeClass(name) => return write!(f, "runtimeClass {name}"),
            Self::Toleration(key) => return write!(f, "toleration {key}"),
            Self::Annotation(key) => return write!(f, "annotation {key}"),
        })
    }
}
