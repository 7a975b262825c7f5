//! Kinds of documents that can be imported, and their importers.

use serde_json::Value;
use trellis_api::document::{self, Document};

use crate::context::ImportContext;
use crate::field_log::FieldLog;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::{fields, kai, kubeflow, kuberay, kueue, lattice, volcano};

type Importer = fn(&Fields<'_>, &ImportContext) -> Vec<ImportedObject>;

/// Group, versions, kind and importer.
const IMPORTERS: [(&str, &[&str], &str, Importer); 18] = [
    (
        "batch.volcano.sh",
        &["v1alpha1"],
        "Job",
        volcano::convert_job,
    ),
    (
        "scheduling.volcano.sh",
        &["v1beta1"],
        "Queue",
        volcano::convert_queue,
    ),
    (
        "topology.volcano.sh",
        &["v1alpha1"],
        "HyperNode",
        volcano::convert_hyper_node,
    ),
    ("scheduling.run.ai", &["v2"], "Queue", kai::convert_queue),
    (
        "scheduling.run.ai",
        &["v2alpha2"],
        "PodGroup",
        kai::convert_pod_group,
    ),
    (
        "kai.scheduler",
        &["v1alpha1", "v1"],
        "Topology",
        kai::convert_topology,
    ),
    ("batch", &["v1"], "Job", kueue::convert_job),
    ("kubeflow.org", &["v1"], "PyTorchJob", kubeflow::convert_job),
    ("ray.io", &["v1"], "RayJob", kuberay::convert_job),
    ("ray.io", &["v1"], "RayCluster", kuberay::convert_cluster),
    (
        "lattice.dev",
        &["v1alpha1"],
        "LatticeJob",
        lattice::convert_job,
    ),
    (
        "kueue.x-k8s.io",
        KUEUE_VERSIONS,
        "ClusterQueue",
        kueue::convert_cluster_queue,
    ),
    (
        "kueue.x-k8s.io",
        COHORT_VERSIONS,
        "Cohort",
        kueue::convert_cohort,
    ),
    (
        "kueue.x-k8s.io",
        KUEUE_VERSIONS,
        "LocalQueue",
        kueue::convert_local_queue,
    ),
    (
        "kueue.x-k8s.io",
        KUEUE_VERSIONS,
        "ResourceFlavor",
        kueue::convert_flavor,
    ),
    (
        "kueue.x-k8s.io",
        COHORT_VERSIONS,
        "Topology",
        kueue::convert_topology,
    ),
    (
        "kueue.x-k8s.io",
        KUEUE_VERSIONS,
        "WorkloadPriorityClass",
        kueue::convert_priority_class,
    ),
    (
        "config.kueue.x-k8s.io",
        KUEUE_VERSIONS,
        "Configuration",
        kueue::convert_configuration,
    ),
];
const KUEUE_VERSIONS: &[&str] = &["v1beta1", "v1beta2"];
/// Cohort and Topology stayed alpha longer than the other kinds, with the same fields.
const COHORT_VERSIONS: &[&str] = &["v1alpha1", "v1beta1", "v1beta2"];

/// Kinds of the same systems that are not imported, and the alternatives.
const UNSUPPORTED: [(&str, &str, &str); 18] = [
    (
        "",
        "ConfigMap",
        "write the controller_manager_config.yaml of Kueue's ConfigMap as a document of its own, and leave other ConfigMaps out",
    ),
    (
        "kueue.x-k8s.io",
        "AdmissionCheck",
        "policies decide which jobs may run (docs/policies.md); flavors and queues say which jobs get new nodes (docs/autoscaling.md)",
    ),
    (
        "kueue.x-k8s.io",
        "ProvisioningRequestConfig",
        "set provisioning of the ResourceFlavor and the TrainingQueue (docs/autoscaling.md)",
    ),
    (
        "kueue.x-k8s.io",
        "MultiKueueConfig",
        "Trellis schedules one cluster; leave it out",
    ),
    (
        "kueue.x-k8s.io",
        "MultiKueueCluster",
        "Trellis schedules one cluster; leave it out",
    ),
    (
        "kueue.x-k8s.io",
        "Workload",
        "Trellis creates a PodGroup for each TrainingJob; import the job itself",
    ),
    (
        "scheduling.volcano.sh",
        "PodGroup",
        "Trellis creates one for each TrainingJob; import the job itself",
    ),
    (
        "kai.scheduler",
        "SchedulingShard",
        "create a ResourceFlavor with the label kai.scheduler/node-pool of its nodes (docs/queues.md)",
    ),
    (
        "kai.scheduler",
        "Config",
        "it configures KAI's own components; leave it out",
    ),
    (
        "batch.volcano.sh",
        "CronJob",
        "Trellis has no schedules; import the Job of its jobTemplate, and let a CronJob apply the TrainingJob",
    ),
    (
        "batch",
        "CronJob",
        "Trellis has no schedules; import the Job of its jobTemplate, and let a CronJob apply the TrainingJob",
    ),
    (
        "batch.volcano.sh",
        "JobTemplate",
        "import a Job that was created from it",
    ),
    (
        "flow.volcano.sh",
        "JobFlow",
        "write one job with stages, in which a task group starts when another one is Complete (docs/stages.md)",
    ),
    (
        "kubeflow.org",
        "MPIJob",
        "write a TrainingJob with framework MPI (docs/frameworks/mpi.md)",
    ),
    (
        "kubeflow.org",
        "TFJob",
        "write a TrainingJob with framework TensorFlow (docs/frameworks/tensorflow.md)",
    ),
    (
        "kubeflow.org",
        "JAXJob",
        "write a TrainingJob with framework JAX (docs/frameworks/jax.md)",
    ),
    (
        "ray.io",
        "RayService",
        "a TrainingJob ends, and a service does not; write a Deployment",
    ),
    (
        "jobset.x-k8s.io",
        "JobSet",
        "write a TrainingJob with a task group for each replicatedJob (docs/coming-from-kueue.md)",
    ),
];

/// Returns the kinds that can be imported, as `kind (group)`.
#[must_use]
pub fn importable_kinds() -> Vec<String> {
    let kinds = IMPORTERS.iter();
    kinds
        .map(|(group, _, kind, _)| format!("{kind} ({group})"))
        .collect()
}

/// Returns true if documents of this group and kind can be imported. A core Job can be imported if
/// Kueue or KAI queues it.
#[must_use]
pub fn is_importable(document: &Document) -> bool {
    let (group, _) = group_and_version(document);
    let mut kinds = IMPORTERS.iter();
    let is_known =
        kinds.any(|(kind_group, _, kind, _)| *kind_group == group && *kind == document.kind);
    let is_queued = |job: &Value| kueue::is_queued(job) || kai::is_queued(job);
    is_known && (group != "batch" || is_queued(&fields::to_value(document)))
}

/// Returns true if the document can be converted into a TrainingJob.
#[must_use]
pub fn becomes_job(document: &Document) -> bool {
    let is_job = document.kind.ends_with("Job") || document.kind == "RayCluster";
    is_job && is_importable(document)
}

/// Returns kind, namespace and name for messages.
pub(crate) fn title(document: &Document, value: &Value) -> String {
    let word = |key: &str| {
        let word = value.get("metadata").and_then(|metadata| metadata.get(key));
        word.and_then(Value::as_str).filter(|word| !word.is_empty())
    };
    let name = word("name").or_else(|| word("generateName"));
    let name = name.unwrap_or("without a name");
    let kind = match document.api_version.split_once('/') {
        // Several systems have a kind with the name Job or Queue, so the title has the group.
        Some((group, _)) => format!("{} ({group})", document.kind),
        None => document.kind.clone(),
    };
    let text = match word("namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    };
    text.replace(|c: char| c.is_control(), " ")
}

/// Converts a document, or records why it cannot be imported.
pub(crate) fn convert(
    document: &Document,
    value: &Value,
    context: &ImportContext,
    log: &FieldLog,
) -> Vec<ImportedObject> {
    let (group, version) = group_and_version(document);
    let of_kind =
        |kind: &&(&str, &[&str], &str, Importer)| kind.0 == group && kind.2 == document.kind;
    if let Some((_, versions, kind, turn)) = IMPORTERS.iter().find(of_kind) {
        if !versions.contains(&version) {
            let known = versions.join(" or ");
            let message =
                format!("{kind} of {group} can be imported only in version {known}: convert it");
            log.add_problem("apiVersion", message);
            return Vec::new();
        }
        let root = Fields::root(log, value);
        return turn(&root, context);
    }
    let other = |(kind_group, kind, _): &&(&str, &str, &str)| {
        *kind_group == group && *kind == document.kind
    };
    let message = match UNSUPPORTED.iter().find(other) {
        Some((_, kind, instead)) => format!("{kind} cannot be imported: {instead}"),
        None if group == trellis_api::GROUP => {
            "is already a kind of Trellis: apply it unchanged".to_owned()
        }
        None => unknown_kind_message(document),
    };
    log.add_problem("kind", message);
    Vec::new()
}

fn group_and_version(document: &Document) -> (&str, &str) {
    let version = document.api_version.as_str();
    version.split_once('/').unwrap_or(("", version))
}

fn unknown_kind_message(document: &Document) -> String {
    let (kind, version) = (&document.kind, &document.api_version);
    let kinds: Vec<&str> = IMPORTERS.iter().map(|(_, _, kind, _)| *kind).collect();
    let near = document::nearest(kind, &kinds);
    let fix = match near.and_then(|near| IMPORTERS.iter().find(|known| known.2 == near)) {
        Some((group, versions, kind, _)) => {
            let version = versions.last().unwrap_or(&"");
            format!("did you mean {kind} of {group}/{version}?")
        }
        None => format!("the importable kinds are {}", importable_kinds().join(", ")),
    };
    format!("{kind:?} of {version:?} cannot be imported: {fix}")
}
