//! Name, labels and annotations.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::names;

use crate::fields::Fields;

/// Domains of labels and annotations that only another system uses. Before this check, the
/// importers read the keys that they know.
const FOREIGN_DOMAINS: [&str; 8] = [
    "kueue.x-k8s.io",
    "volcano.sh",
    "kai.scheduler",
    "run.ai",
    "training.kubeflow.org",
    "lattice.dev",
    "batch.kubernetes.io",
    "scheduling.x-k8s.io",
];

/// Keys that controllers write into objects that they create.
const CONTROLLER_KEYS: [&str; 8] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-tracking",
    "kueue.x-k8s.io/managed",
    "deployment.kubernetes.io/revision",
];

/// Finalizers that controllers add to objects that they watch.
const CONTROLLER_FINALIZERS: [&str; 2] = [
    "kueue.x-k8s.io/resource-in-use",
    "batch.kubernetes.io/job-tracking",
];

/// Returns the name of an object, or the prefix in its `generateName`. If both are absent, that is
/// a problem.
pub(crate) fn object_name(root: &Fields<'_>) -> Option<String> {
    let metadata = root.object("metadata");
    for finalizer in metadata
        .iter()
        .flat_map(|metadata| metadata.items("finalizers"))
    {
        if CONTROLLER_FINALIZERS
            .iter()
            .any(|known| finalizer.value() == known)
        {
            finalizer.mark_read();
        }
    }
    let name = metadata
        .as_ref()
        .and_then(|metadata| metadata.text("name").or_else(|| generated_name(metadata)));
    if name.is_none() && !root.log().is_read("metadata.name") {
        let log = root.log();
        log.add_problem("metadata.name", "is required: add it");
    }
    name
}

/// Returns a name for an object with `generateName`.
fn generated_name(metadata: &Fields<'_>) -> Option<String> {
    let start = metadata.get("generateName")?;
    let text = start.as_text()?;
    let name = text.trim_end_matches('-');
    if name.is_empty() {
        return None;
    }
    start.note(
        format!(
            "generates a new name for each object, and the imported object has a fixed name: {name}"
        ),
        "change metadata.name for each object that you create",
    );
    Some(name.to_owned())
}

/// Returns the metadata of the created object: its name, its namespace if the kind is namespaced,
/// and the user's labels and annotations.
pub(crate) fn read_metadata(root: &Fields<'_>, namespaced: bool) -> Option<ObjectMeta> {
    let name = object_name(root)?;
    let metadata = root.object("metadata")?;
    let namespace = namespaced.then(|| metadata.text("namespace")).flatten();
    let filled = |map: BTreeMap<String, String>| Some(map).filter(|map| !map.is_empty());
    Some(ObjectMeta {
        name: Some(name),
        namespace,
        labels: filled(own_keys(&metadata, "labels", is_managed)),
        annotations: filled(own_keys(&metadata, "annotations", |_| false)),
        ..ObjectMeta::default()
    })
}

/// Returns true for the label that only Trellis may set. It marks objects that Trellis created.
fn is_managed(key: &str) -> bool {
    key == names::MANAGED_BY
}

/// Returns the labels or annotations of a pod. A note reports keys that Trellis reserves.
pub(crate) fn read_pod_keys(metadata: &Fields<'_>, key: &str) -> BTreeMap<String, String> {
    own_keys(metadata, key, names::is_reserved_key)
}

fn own_keys(
    metadata: &Fields<'_>,
    key: &str,
    is_reserved: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (key, value) in metadata.entries(key) {
        let domain = key.split_once('/').map(|(domain, _)| domain);
        let is_of = |suffix: &str| {
            domain.is_some_and(|d| d == suffix || d.ends_with(&format!(".{suffix}")))
        };
        if metadata.log().is_read(value.path()) {
            continue;
        }
        if CONTROLLER_KEYS.contains(&key.as_str()) {
            value.mark_read();
        } else if FOREIGN_DOMAINS.iter().any(|suffix| is_of(suffix)) {
            value.note(
                "has no effect in Trellis",
                "see docs/import.md for the equivalent field, or leave it out",
            );
        } else if is_reserved(&key) {
            value.note("is a reserved key", "use a domain of your own");
        } else if let Some(text) = value.as_text() {
            map.insert(key, text);
        }
    }
    map
}
