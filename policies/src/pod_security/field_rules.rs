//! The list of all fields that a pod of a job may have, and how each is checked.
//!
//! A field that is not listed is refused, so a new field of Kubernetes must be added here first. A
//! test compares the list with Kubernetes' own schema, both ways. Sources: the Pod Security
//! Standards (<https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>)
//! and, for fields that they do not cover, the effects of the field.

mod volume;

use FieldRule::{Checked, Harmless, Nested, Never, Only};
use volume::VOLUME;

/// How a field of a pod is checked.
pub(super) enum FieldRule {
    /// Harmless with any value. It has no fields of its own.
    Harmless,
    /// The field and everything in it are checked for privileges.
    Checked,
    /// The field, or each of its items, may have only these fields.
    Nested(FieldRules),
    /// The field may have only this value.
    Only(&'static str),
    /// The field must be absent. The text says what to do instead.
    Never(&'static str),
}

/// Fields by name, as they are written.
pub(super) type FieldRules = &'static [(&'static str, FieldRule)];

const SET_BY_TRELLIS: &str = "leave it to Trellis";
const NOT_EVALUATED: &str = "leave it out: Trellis does not evaluate it";
const LINUX_ONLY: &str = "leave it out: pods of jobs are Linux pods";
const NO_DEVICE_ALLOCATION: &str = "leave it out: Trellis does not do dynamic resource allocation";

pub(super) const POD: FieldRules = &[
    ("apiVersion", Only("v1")),
    ("kind", Only("Pod")),
    ("metadata", Nested(METADATA)),
    ("spec", Nested(SPEC)),
    ("status", Never(SET_BY_TRELLIS)),
];

const METADATA: FieldRules = &[
    ("annotations", Checked),
    ("creationTimestamp", Never(SET_BY_TRELLIS)),
    ("deletionGracePeriodSeconds", Never(SET_BY_TRELLIS)),
    ("deletionTimestamp", Never(SET_BY_TRELLIS)),
    (
        "finalizers",
        Never("leave it out: a pod must go when it is deleted"),
    ),
    ("generateName", Never(SET_BY_TRELLIS)),
    ("generation", Never(SET_BY_TRELLIS)),
    ("labels", Harmless),
    ("managedFields", Never(SET_BY_TRELLIS)),
    ("name", Harmless),
    ("namespace", Harmless),
    ("ownerReferences", Nested(OWNER)),
    ("resourceVersion", Never(SET_BY_TRELLIS)),
    ("selfLink", Never(SET_BY_TRELLIS)),
    ("uid", Never(SET_BY_TRELLIS)),
];

const OWNER: FieldRules = &[
    ("apiVersion", Only("trellis.dev/v1alpha1")),
    ("blockOwnerDeletion", Harmless),
    ("controller", Harmless),
    ("kind", Only("TrainingJob")),
    ("name", Harmless),
    ("uid", Harmless),
];

const SPEC: FieldRules = &[
    ("activeDeadlineSeconds", Never("set deadlines of the job")),
    ("affinity", Nested(AFFINITY)),
    // A demand to use the ServiceAccount.
    ("automountServiceAccountToken", Harmless),
    ("containers", Nested(CONTAINER)),
    ("dnsConfig", Nested(DNS_CONFIG)),
    ("dnsPolicy", Harmless),
    ("enableServiceLinks", Harmless),
    (
        "ephemeralContainers",
        Never("add it to the pod that runs, by kubectl debug"),
    ),
    ("evictionResponders", Never(NOT_EVALUATED)),
    // The pod's own /etc/hosts.
    (
        "hostAliases",
        Nested(&[("hostnames", Harmless), ("ip", Harmless)]),
    ),
    ("hostIPC", Checked),
    ("hostNetwork", Checked),
    ("hostPID", Checked),
    // The standards relax some checks for pods with user namespaces; Trellis does not.
    ("hostUsers", Harmless),
    ("hostname", Harmless),
    ("hostnameOverride", Never(SET_BY_TRELLIS)),
    ("imagePullSecrets", Nested(NAME_ONLY)),
    ("initContainers", Nested(INIT_CONTAINER)),
    ("nodeName", Harmless),
    ("nodeSelector", Harmless),
    ("os", Never(LINUX_ONLY)),
    (
        "overhead",
        Never("set runtimeClassName: it comes from there"),
    ),
    ("preemptionPolicy", Never(SET_BY_TRELLIS)),
    ("priority", Never("set priorityClassName of the job")),
    // A demand to use the class.
    ("priorityClassName", Harmless),
    ("readinessGates", Never(NOT_EVALUATED)),
    ("resourceClaims", Never(NO_DEVICE_ALLOCATION)),
    ("resources", Never("set resources of the containers")),
    ("restartPolicy", Only("Never")),
    ("runtimeClassName", Checked),
    ("schedulerName", Only("trellis")),
    ("schedulingGates", Never(SET_BY_TRELLIS)),
    ("schedulingGroup", Never(SET_BY_TRELLIS)),
    ("securityContext", Nested(POD_SECURITY_CONTEXT)),
    ("serviceAccount", Never("set serviceAccountName of the job")),
    // A demand to use it.
    ("serviceAccountName", Harmless),
    ("setHostnameAsFQDN", Never(SET_BY_TRELLIS)),
    // Between containers of one pod, which have one user.
    ("shareProcessNamespace", Harmless),
    ("subdomain", Harmless),
    ("terminationGracePeriodSeconds", Harmless),
    ("tolerations", Checked),
    ("topologySpreadConstraints", Never(NOT_EVALUATED)),
    ("volumes", Nested(VOLUME)),
];

const NAME_ONLY: FieldRules = &[("name", Harmless)];

const AFFINITY: FieldRules = &[
    ("nodeAffinity", Nested(NODE_AFFINITY)),
    // Pod affinity terms also keep other pods off the node.
    ("podAffinity", Never(NOT_EVALUATED)),
    ("podAntiAffinity", Never(NOT_EVALUATED)),
];

const NODE_AFFINITY: FieldRules = &[
    (
        "preferredDuringSchedulingIgnoredDuringExecution",
        Nested(&[("preference", Nested(NODE_TERM)), ("weight", Harmless)]),
    ),
    (
        "requiredDuringSchedulingIgnoredDuringExecution",
        Nested(&[("nodeSelectorTerms", Nested(NODE_TERM))]),
    ),
];

const NODE_TERM: FieldRules = &[
    ("matchExpressions", Nested(EXPRESSION)),
    ("matchFields", Nested(EXPRESSION)),
];

const EXPRESSION: FieldRules = &[
    ("key", Harmless),
    ("operator", Harmless),
    ("values", Harmless),
];

/// The NetworkPolicy limits which servers the pod can query.
const DNS_CONFIG: FieldRules = &[
    ("nameservers", Harmless),
    (
        "options",
        Nested(&[("name", Harmless), ("value", Harmless)]),
    ),
    ("searches", Harmless),
];

/// Fields of a container. Containers and init containers differ in `restartPolicy`.
macro_rules! container {
    ($restart:expr) => {
        &[
            ("args", Harmless),
            ("command", Harmless),
            ("env", Nested(ENV)),
            ("envFrom", Nested(ENV_FROM)),
            // A demand to use it.
            ("image", Harmless),
            ("imagePullPolicy", Harmless),
            ("lifecycle", Nested(LIFECYCLE)),
            ("livenessProbe", Nested(PROBE)),
            ("name", Harmless),
            ("ports", Nested(PORT)),
            ("readinessProbe", Nested(PROBE)),
            (
                "resizePolicy",
                Nested(&[("resourceName", Harmless), ("restartPolicy", Harmless)]),
            ),
            ("resources", Nested(RESOURCES)),
            ("restartPolicy", $restart),
            ("restartPolicyRules", Never("set restart of the job")),
            ("securityContext", Nested(SECURITY_CONTEXT)),
            ("startupProbe", Nested(PROBE)),
            ("stdin", Harmless),
            ("stdinOnce", Harmless),
            ("terminationMessagePath", Harmless),
            ("terminationMessagePolicy", Harmless),
            ("tty", Harmless),
            // Each claim is a demand of its own.
            (
                "volumeDevices",
                Nested(&[("devicePath", Harmless), ("name", Harmless)]),
            ),
            ("volumeMounts", Nested(MOUNT)),
            ("workingDir", Harmless),
        ]
    };
}

const CONTAINER: FieldRules = container!(Never("set restart of the job"));
/// A sidecar, or one that ends before the others start.
const INIT_CONTAINER: FieldRules = container!(Only("Always"));

/// Secrets and ConfigMaps are demands.
const ENV: FieldRules = &[
    ("name", Harmless),
    ("value", Harmless),
    (
        "valueFrom",
        Nested(&[
            ("configMapKeyRef", Nested(KEY_REFERENCE)),
            ("fieldRef", Nested(FIELD_REFERENCE)),
            (
                "fileKeyRef",
                Nested(&[
                    ("key", Harmless),
                    ("optional", Harmless),
                    ("path", Harmless),
                    ("volumeName", Harmless),
                ]),
            ),
            ("resourceFieldRef", Nested(RESOURCE_FIELD)),
            ("secretKeyRef", Nested(KEY_REFERENCE)),
        ]),
    ),
];

const ENV_FROM: FieldRules = &[
    ("configMapRef", Nested(OPTIONAL_REFERENCE)),
    ("prefix", Harmless),
    ("secretRef", Nested(OPTIONAL_REFERENCE)),
];

const KEY_REFERENCE: FieldRules = &[
    ("key", Harmless),
    ("name", Harmless),
    ("optional", Harmless),
];
const OPTIONAL_REFERENCE: FieldRules = &[("name", Harmless), ("optional", Harmless)];
const FIELD_REFERENCE: FieldRules = &[("apiVersion", Harmless), ("fieldPath", Harmless)];
const RESOURCE_FIELD: FieldRules = &[
    ("containerName", Harmless),
    ("divisor", Harmless),
    ("resource", Harmless),
];

const LIFECYCLE: FieldRules = &[
    ("postStart", Nested(HOOK)),
    ("preStop", Nested(HOOK)),
    ("stopSignal", Harmless),
];

const HOOK: FieldRules = &[
    ("exec", Nested(&[("command", Harmless)])),
    ("httpGet", Nested(HTTP_GET)),
    ("sleep", Nested(&[("seconds", Harmless)])),
    ("tcpSocket", Nested(TCP_SOCKET)),
];

const HTTP_GET: FieldRules = &[
    ("host", Checked),
    (
        "httpHeaders",
        Nested(&[("name", Harmless), ("value", Harmless)]),
    ),
    ("path", Harmless),
    ("port", Harmless),
    ("protocol", Harmless),
    ("scheme", Harmless),
];

const TCP_SOCKET: FieldRules = &[("host", Checked), ("port", Harmless)];

const PROBE: FieldRules = &[
    ("exec", Nested(&[("command", Harmless)])),
    ("failureThreshold", Harmless),
    (
        "grpc",
        Nested(&[
            ("mode", Harmless),
            ("port", Harmless),
            ("service", Harmless),
        ]),
    ),
    ("httpGet", Nested(HTTP_GET)),
    ("initialDelaySeconds", Harmless),
    ("periodSeconds", Harmless),
    ("successThreshold", Harmless),
    ("tcpSocket", Nested(TCP_SOCKET)),
    ("terminationGracePeriodSeconds", Harmless),
    ("timeoutSeconds", Harmless),
];

const PORT: FieldRules = &[
    ("containerPort", Harmless),
    ("hostIP", Checked),
    ("hostPort", Checked),
    ("name", Harmless),
    ("protocol", Harmless),
];

/// Requests and limits, which the scheduler counts.
const RESOURCES: FieldRules = &[
    ("claims", Never(NO_DEVICE_ALLOCATION)),
    ("limits", Harmless),
    ("requests", Harmless),
];

const MOUNT: FieldRules = &[
    ("bindMountOptions", Never(NOT_EVALUATED)),
    ("mountPath", Harmless),
    ("mountPropagation", Checked),
    ("name", Harmless),
    ("readOnly", Harmless),
    ("recursiveReadOnly", Harmless),
    ("subPath", Harmless),
    ("subPathExpr", Harmless),
];

const SECURITY_CONTEXT: FieldRules = &[
    ("allowPrivilegeEscalation", Checked),
    ("appArmorProfile", Nested(SECURITY_PROFILE)),
    (
        "capabilities",
        Nested(&[("add", Checked), ("drop", Checked)]),
    ),
    ("privileged", Checked),
    ("procMount", Checked),
    ("readOnlyRootFilesystem", Harmless),
    ("runAsGroup", Harmless),
    ("runAsNonRoot", Checked),
    ("runAsUser", Checked),
    ("seLinuxOptions", Nested(SE_LINUX)),
    ("seccompProfile", Nested(SECURITY_PROFILE)),
    ("windowsOptions", Nested(WINDOWS_OPTIONS)),
];

const POD_SECURITY_CONTEXT: FieldRules = &[
    ("appArmorProfile", Nested(SECURITY_PROFILE)),
    ("fsGroup", Harmless),
    ("fsGroupChangePolicy", Harmless),
    ("runAsGroup", Harmless),
    ("runAsNonRoot", Checked),
    ("runAsUser", Checked),
    ("seLinuxChangePolicy", Harmless),
    ("seLinuxOptions", Nested(SE_LINUX)),
    ("seccompProfile", Nested(SECURITY_PROFILE)),
    ("supplementalGroups", Harmless),
    ("supplementalGroupsPolicy", Harmless),
    ("sysctls", Nested(&[("name", Checked), ("value", Harmless)])),
    ("windowsOptions", Nested(WINDOWS_OPTIONS)),
];

const SECURITY_PROFILE: FieldRules = &[("localhostProfile", Harmless), ("type", Checked)];

const SE_LINUX: FieldRules = &[
    ("level", Harmless),
    ("role", Checked),
    ("type", Checked),
    ("user", Checked),
];

const WINDOWS_OPTIONS: FieldRules = &[
    ("gmsaCredentialSpec", Never(LINUX_ONLY)),
    ("gmsaCredentialSpecName", Never(LINUX_ONLY)),
    ("hostProcess", Checked),
    ("runAsUserName", Never(LINUX_ONLY)),
];
