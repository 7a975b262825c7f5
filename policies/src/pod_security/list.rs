//! The list of all fields that a pod of a job may have, and how each is checked.
//!
//! A field that is not listed is refused, so a new field of Kubernetes must be added here first. A
//! test compares the list with Kubernetes' own schema, both ways. Sources: the Pod Security
//! Standards (<https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>)
//! and, for fields that they do not cover, the effects of the field.

mod volume;

use Is::{Free, Has, Judged, Never, Only};
use volume::VOLUME;

/// How a field of a pod is checked.
pub(super) enum Is {
    /// Harmless with any value. It has no fields of its own.
    Free,
    /// The field and everything in it are checked for privileges.
    Judged,
    /// The field, or each of its items, may have only these fields.
    Has(Fields),
    /// The field may have only this value.
    Only(&'static str),
    /// The field must be absent. The text says what to do instead.
    Never(&'static str),
}

/// Fields by name, as they are written.
pub(super) type Fields = &'static [(&'static str, Is)];

const TRELLIS: &str = "leave it to Trellis";
const NOT_EVALUATED: &str = "leave it out: Trellis does not evaluate it";
const OTHER_SYSTEM: &str = "leave it out: pods of jobs are Linux pods";
const DEVICES: &str = "leave it out: Trellis does not do dynamic resource allocation";

pub(super) const POD: Fields = &[
    ("apiVersion", Only("v1")),
    ("kind", Only("Pod")),
    ("metadata", Has(METADATA)),
    ("spec", Has(SPEC)),
    ("status", Never(TRELLIS)),
];

const METADATA: Fields = &[
    ("annotations", Judged),
    ("creationTimestamp", Never(TRELLIS)),
    ("deletionGracePeriodSeconds", Never(TRELLIS)),
    ("deletionTimestamp", Never(TRELLIS)),
    (
        "finalizers",
        Never("leave it out: a pod must go when it is deleted"),
    ),
    ("generateName", Never(TRELLIS)),
    ("generation", Never(TRELLIS)),
    ("labels", Free),
    ("managedFields", Never(TRELLIS)),
    ("name", Free),
    ("namespace", Free),
    ("ownerReferences", Has(OWNER)),
    ("resourceVersion", Never(TRELLIS)),
    ("selfLink", Never(TRELLIS)),
    ("uid", Never(TRELLIS)),
];

const OWNER: Fields = &[
    ("apiVersion", Only("trellis.dev/v1alpha1")),
    ("blockOwnerDeletion", Free),
    ("controller", Free),
    ("kind", Only("TrainingJob")),
    ("name", Free),
    ("uid", Free),
];

const SPEC: Fields = &[
    ("activeDeadlineSeconds", Never("set deadlines of the job")),
    ("affinity", Has(AFFINITY)),
    // A demand to use the ServiceAccount.
    ("automountServiceAccountToken", Free),
    ("containers", Has(CONTAINER)),
    ("dnsConfig", Has(DNS_CONFIG)),
    ("dnsPolicy", Free),
    ("enableServiceLinks", Free),
    (
        "ephemeralContainers",
        Never("add it to the pod that runs, by kubectl debug"),
    ),
    ("evictionResponders", Never(NOT_EVALUATED)),
    // The pod's own /etc/hosts.
    ("hostAliases", Has(&[("hostnames", Free), ("ip", Free)])),
    ("hostIPC", Judged),
    ("hostNetwork", Judged),
    ("hostPID", Judged),
    // The standards relax some checks for pods with user namespaces; Trellis does not.
    ("hostUsers", Free),
    ("hostname", Free),
    ("hostnameOverride", Never(TRELLIS)),
    ("imagePullSecrets", Has(NAMED)),
    ("initContainers", Has(INIT_CONTAINER)),
    ("nodeName", Free),
    ("nodeSelector", Free),
    ("os", Never(OTHER_SYSTEM)),
    (
        "overhead",
        Never("set runtimeClassName: it comes from there"),
    ),
    ("preemptionPolicy", Never(TRELLIS)),
    ("priority", Never("set priorityClassName of the job")),
    // A demand to use the class.
    ("priorityClassName", Free),
    ("readinessGates", Never(NOT_EVALUATED)),
    ("resourceClaims", Never(DEVICES)),
    ("resources", Never("set resources of the containers")),
    ("restartPolicy", Only("Never")),
    ("runtimeClassName", Judged),
    ("schedulerName", Only("trellis")),
    ("schedulingGates", Never(TRELLIS)),
    ("schedulingGroup", Never(TRELLIS)),
    ("securityContext", Has(POD_CONTEXT)),
    ("serviceAccount", Never("set serviceAccountName of the job")),
    // A demand to use it.
    ("serviceAccountName", Free),
    ("setHostnameAsFQDN", Never(TRELLIS)),
    // Between containers of one pod, which have one user.
    ("shareProcessNamespace", Free),
    ("subdomain", Free),
    ("terminationGracePeriodSeconds", Free),
    ("tolerations", Judged),
    ("topologySpreadConstraints", Never(NOT_EVALUATED)),
    ("volumes", Has(VOLUME)),
];

const NAMED: Fields = &[("name", Free)];

const AFFINITY: Fields = &[
    ("nodeAffinity", Has(NODE_AFFINITY)),
    // Pod affinity terms also keep other pods off the node.
    ("podAffinity", Never(NOT_EVALUATED)),
    ("podAntiAffinity", Never(NOT_EVALUATED)),
];

const NODE_AFFINITY: Fields = &[
    (
        "preferredDuringSchedulingIgnoredDuringExecution",
        Has(&[("preference", Has(NODE_TERM)), ("weight", Free)]),
    ),
    (
        "requiredDuringSchedulingIgnoredDuringExecution",
        Has(&[("nodeSelectorTerms", Has(NODE_TERM))]),
    ),
];

const NODE_TERM: Fields = &[
    ("matchExpressions", Has(EXPRESSION)),
    ("matchFields", Has(EXPRESSION)),
];

const EXPRESSION: Fields = &[("key", Free), ("operator", Free), ("values", Free)];

/// The NetworkPolicy limits which servers the pod can query.
const DNS_CONFIG: Fields = &[
    ("nameservers", Free),
    ("options", Has(&[("name", Free), ("value", Free)])),
    ("searches", Free),
];

/// Fields of a container. Containers and init containers differ in `restartPolicy`.
macro_rules! container {
    ($restart:expr) => {
        &[
            ("args", Free),
            ("command", Free),
            ("env", Has(ENV)),
            ("envFrom", Has(ENV_FROM)),
            // A demand to use it.
            ("image", Free),
            ("imagePullPolicy", Free),
            ("lifecycle", Has(LIFECYCLE)),
            ("livenessProbe", Has(PROBE)),
            ("name", Free),
            ("ports", Has(PORT)),
            ("readinessProbe", Has(PROBE)),
            (
                "resizePolicy",
                Has(&[("resourceName", Free), ("restartPolicy", Free)]),
            ),
            ("resources", Has(RESOURCES)),
            ("restartPolicy", $restart),
            ("restartPolicyRules", Never("set restart of the job")),
            ("securityContext", Has(CONTEXT)),
            ("startupProbe", Has(PROBE)),
            ("stdin", Free),
            ("stdinOnce", Free),
            ("terminationMessagePath", Free),
            ("terminationMessagePolicy", Free),
            ("tty", Free),
            // Each claim is a demand of its own.
            (
                "volumeDevices",
                Has(&[("devicePath", Free), ("name", Free)]),
            ),
            ("volumeMounts", Has(MOUNT)),
            ("workingDir", Free),
        ]
    };
}

const CONTAINER: Fields = container!(Never("set restart of the job"));
/// A sidecar, or one that ends before the others start.
const INIT_CONTAINER: Fields = container!(Only("Always"));

/// Secrets and ConfigMaps are demands.
const ENV: Fields = &[
    ("name", Free),
    ("value", Free),
    (
        "valueFrom",
        Has(&[
            ("configMapKeyRef", Has(KEY)),
            ("fieldRef", Has(FIELD)),
            (
                "fileKeyRef",
                Has(&[
                    ("key", Free),
                    ("optional", Free),
                    ("path", Free),
                    ("volumeName", Free),
                ]),
            ),
            ("resourceFieldRef", Has(RESOURCE_FIELD)),
            ("secretKeyRef", Has(KEY)),
        ]),
    ),
];

const ENV_FROM: Fields = &[
    ("configMapRef", Has(OPTIONAL)),
    ("prefix", Free),
    ("secretRef", Has(OPTIONAL)),
];

const KEY: Fields = &[("key", Free), ("name", Free), ("optional", Free)];
const OPTIONAL: Fields = &[("name", Free), ("optional", Free)];
const FIELD: Fields = &[("apiVersion", Free), ("fieldPath", Free)];
const RESOURCE_FIELD: Fields = &[
    ("containerName", Free),
    ("divisor", Free),
    ("resource", Free),
];

const LIFECYCLE: Fields = &[
    ("postStart", Has(HOOK)),
    ("preStop", Has(HOOK)),
    ("stopSignal", Free),
];

const HOOK: Fields = &[
    ("exec", Has(&[("command", Free)])),
    ("httpGet", Has(HTTP)),
    ("sleep", Has(&[("seconds", Free)])),
    ("tcpSocket", Has(TCP)),
];

const HTTP: Fields = &[
    ("host", Judged),
    ("httpHeaders", Has(&[("name", Free), ("value", Free)])),
    ("path", Free),
    ("port", Free),
    ("protocol", Free),
    ("scheme", Free),
];

const TCP: Fields = &[("host", Judged), ("port", Free)];

const PROBE: Fields = &[
    ("exec", Has(&[("command", Free)])),
    ("failureThreshold", Free),
    (
        "grpc",
        Has(&[("mode", Free), ("port", Free), ("service", Free)]),
    ),
    ("httpGet", Has(HTTP)),
    ("initialDelaySeconds", Free),
    ("periodSeconds", Free),
    ("successThreshold", Free),
    ("tcpSocket", Has(TCP)),
    ("terminationGracePeriodSeconds", Free),
    ("timeoutSeconds", Free),
];

const PORT: Fields = &[
    ("containerPort", Free),
    ("hostIP", Judged),
    ("hostPort", Judged),
    ("name", Free),
    ("protocol", Free),
];

/// Requests and limits, which the scheduler counts.
const RESOURCES: Fields = &[
    ("claims", Never(DEVICES)),
    ("limits", Free),
    ("requests", Free),
];

const MOUNT: Fields = &[
    ("bindMountOptions", Never(NOT_EVALUATED)),
    ("mountPath", Free),
    ("mountPropagation", Judged),
    ("name", Free),
    ("readOnly", Free),
    ("recursiveReadOnly", Free),
    ("subPath", Free),
    ("subPathExpr", Free),
];

const CONTEXT: Fields = &[
    ("allowPrivilegeEscalation", Judged),
    ("appArmorProfile", Has(PROFILE)),
    ("capabilities", Has(&[("add", Judged), ("drop", Judged)])),
    ("privileged", Judged),
    ("procMount", Judged),
    ("readOnlyRootFilesystem", Free),
    ("runAsGroup", Free),
    ("runAsNonRoot", Judged),
    ("runAsUser", Judged),
    ("seLinuxOptions", Has(SE_LINUX)),
    ("seccompProfile", Has(PROFILE)),
    ("windowsOptions", Has(WINDOWS)),
];

const POD_CONTEXT: Fields = &[
    ("appArmorProfile", Has(PROFILE)),
    ("fsGroup", Free),
    ("fsGroupChangePolicy", Free),
    ("runAsGroup", Free),
    ("runAsNonRoot", Judged),
    ("runAsUser", Judged),
    ("seLinuxChangePolicy", Free),
    ("seLinuxOptions", Has(SE_LINUX)),
    ("seccompProfile", Has(PROFILE)),
    ("supplementalGroups", Free),
    ("supplementalGroupsPolicy", Free),
    ("sysctls", Has(&[("name", Judged), ("value", Free)])),
    ("windowsOptions", Has(WINDOWS)),
];

const PROFILE: Fields = &[("localhostProfile", Free), ("type", Judged)];

const SE_LINUX: Fields = &[
    ("level", Free),
    ("role", Judged),
    ("type", Judged),
    ("user", Judged),
];

const WINDOWS: Fields = &[
    ("gmsaCredentialSpec", Never(OTHER_SYSTEM)),
    ("gmsaCredentialSpecName", Never(OTHER_SYSTEM)),
    ("hostProcess", Judged),
    ("runAsUserName", Never(OTHER_SYSTEM)),
];
