//! Fields that users copy from a Job, JobSet, PyTorchJob or Volcano Job, each with its replacement.

use std::borrow::Cow;

use crate::job::ResourceRequirements;
use crate::rules;

/// Fields of the spec of such jobs.
const SPEC_FIELDS: &[(&[&str], &str)] = &[
    (
        &["parallelism", "completions", "replicas"],
        "write replicas of a task group",
    ),
    (
        &["minAvailable", "minMember"],
        "write replicas of a task group, and minReplicas where fewer pods may start",
    ),
    (
        &["nprocPerNode"],
        "leave it out: gpus of a task group says it",
    ),
    (
        &["backoffLimit", "maxRetry"],
        "write restart.limit, which counts restarts of the whole gang",
    ),
    (
        &["activeDeadlineSeconds"],
        "write deadlines.activeSeconds, which counts while the job runs and not while it waits",
    ),
    (
        &["template"],
        "write image, command, env and resources of its container into a task group",
    ),
    (
        &[
            "pytorchReplicaSpecs",
            "tfReplicaSpecs",
            "mpiReplicaSpecs",
            "replicatedJobs",
            "tasks",
        ],
        "write each of its groups of pods as a task group, or let trellis import turn the whole object",
    ),
    (&["runPolicy"], "write cleanup, deadlines and restart"),
    (
        &["networkTopology", "topologyConstraint"],
        "write topology, with the name of a level of a Topology as required or preferred",
    ),
    (&["schedulerName"], "leave it out"),
];

/// Fields of pods and containers.
const GROUP_FIELDS: &[(&[&str], &str)] = &[
    (
        &["networkTopology", "topologyConstraint"],
        "write topology, with the name of a level of a Topology as required or preferred",
    ),
    (&["nprocPerNode"], "leave it out: gpus says it"),
    (&["parallelism", "completions"], "write replicas"),
    (
        &["template", "spec"],
        "write image, command, env and resources of its container into the task group, and all else into podTemplate",
    ),
    (
        &["containers"],
        "write image, command, env and resources of the main container into the task group, and the other containers into podTemplate",
    ),
    (
        &["volumes", "volumeMounts"],
        "write mounts, each with its path and claimName, configMapName, secretName or emptyDir",
    ),
    (
        &["restartPolicy"],
        "leave it out: spec.restart says what becomes of failed pods",
    ),
    (&["serviceAccountName"], "write spec.serviceAccountName"),
    (
        &["securityContext"],
        "write spec.securityContext, or securityContext of the container main in podTemplate",
    ),
    (
        &[
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ],
        "write it into podTemplate, in the container main",
    ),
    (
        &[
            "hostNetwork",
            "hostIPC",
            "hostPID",
            "initContainers",
            "runtimeClassName",
            "dnsPolicy",
        ],
        "write it into podTemplate.spec",
    ),
    (
        &["terminationGracePeriodSeconds"],
        "write spec.checkpoint.gracePeriodSeconds",
    ),
    (&["schedulerName"], "leave it out"),
];

/// Fields of volumes and their mounts.
const MOUNT_FIELDS: &[(&[&str], &str)] = &[
    (&["mountPath"], "write path"),
    (
        &["name"],
        "leave it out: a volume and its mount are one entry",
    ),
    (&["persistentVolumeClaim"], "write claimName"),
    (
        &["hostPath", "nfs", "csi"],
        "write the volume into podTemplate.spec.volumes, and its mount into the container main there",
    ),
];

/// Fields of ClusterQueues.
const QUEUE_FIELDS: &[(&[&str], &str)] = &[
    (&["cohort", "cohortName", "parent"], "write parentName"),
    (&["fairSharing"], "write its weight directly into spec"),
    (
        &[
            "flavorFungibility",
            "admissionChecks",
            "admissionChecksStrategy",
        ],
        "leave it out (docs/coming-from-kueue.md)",
    ),
];

/// Fields of ResourceFlavors.
const FLAVOR_FIELDS: &[(&[&str], &str)] = &[(
    &["topologyName"],
    "leave it out: the name of a level finds its Topology",
)];

/// Fields of the subject of a QuotaPolicy.
const SUBJECT_FIELDS: &[(&[&str], &str)] = &[
    (
        &["namespace", "namespaces"],
        "write namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}",
    ),
    (
        &["user", "users"],
        "write requester, with the name of one user, or each: Requester beside subject to limit every user",
    ),
    (
        &["queue", "queues"],
        "write queueName, with the name of one queue",
    ),
];

/// Sources of the value of a variable.
const ENV_SOURCE_FIELDS: &[(&[&str], &str)] = &[(
    &["resourceFieldRef", "fileKeyRef"],
    "write the variable into podTemplate, in the container main",
)];

/// Fields of the topology constraints of other schedulers.
const TOPOLOGY_FIELDS: &[(&[&str], &str)] = &[
    (&["requiredTopologyLevel"], "write required"),
    (&["preferredTopologyLevel"], "write preferred"),
    (&["slices"], "write it into topology of a task group"),
    (
        &["segmentSize", "partitionSize", "partitionPolicy"],
        "write slices of a task group, each with level and pods",
    ),
    (
        &["topology", "topologyName"],
        "leave it out: the name of a level finds its Topology",
    ),
    (
        &["mode", "highestTierAllowed", "highestTierName", "level"],
        "write the name of a level of a Topology as required or preferred",
    ),
];

/// Fields of the ports of containers.
const PORT_FIELDS: &[(&[&str], &str)] = &[
    (&["containerPort"], "write port"),
    (
        &["protocol"],
        "leave it out: the ports of a task group are TCP",
    ),
];

/// Returns the replacement for a foreign field. `known` lists the valid fields.
pub(super) fn suggest_field(name: &str, known: &[&str]) -> Option<Cow<'static, str>> {
    let table = match known {
        ["limits", "requests", "claims"] => return suggest_amount(name),
        ["required", "preferred", ..] => TOPOLOGY_FIELDS,
        _ if known.contains(&"taskGroups") => SPEC_FIELDS,
        _ if known.contains(&"gpuResource") => GROUP_FIELDS,
        _ if known.contains(&"claimName") => MOUNT_FIELDS,
        _ if known.contains(&"resourceGroups") => QUEUE_FIELDS,
        _ if known.contains(&"secretKeyRef") => ENV_SOURCE_FIELDS,
        _ if known.contains(&"nodeTaints") => FLAVOR_FIELDS,
        _ if known.contains(&"team") && known.contains(&"requester") => SUBJECT_FIELDS,
        ["name", "port"] => PORT_FIELDS,
        _ => return None,
    };
    let row = table.iter().find(|(names, _)| names.contains(&name));
    row.map(|(_, instead)| Cow::Borrowed(*instead))
}

/// Returns the replacement for an amount next to `limits` instead of in it.
fn suggest_amount(name: &str) -> Option<Cow<'static, str>> {
    let is_amount =
        ResourceRequirements::NON_DEVICE_RESOURCES.contains(&name) || name.contains('/');
    if rules::is_gpu(name) {
        Some("set gpus of the task group".into())
    } else if is_amount {
        Some(format!("write resources.limits.{name}").into())
    } else {
        None
    }
}

/// Returns the mapping to write instead of the single value `value`, for the expected type.
pub(super) fn suggest_mapping(expected: &str, value: &str) -> Option<String> {
    Some(match expected {
        "GpuHours" => format!("{{limit: {value}, windowHours: 720}} for 30 days"),
        "TopologyLevel" => format!("{{nodeLabel: {value}}}, with the key of a node label"),
        "Closeness" => {
            format!("{{required: {value}}} or {{preferred: {value}}}")
        }
        _ => return None,
    })
}
