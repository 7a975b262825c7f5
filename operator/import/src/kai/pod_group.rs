//! KAI's PodGroup. It becomes no object, because each TrainingJob has a PodGroup of its own.

use serde_json::Value;

use super::topology::read_level;
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;

/// The annotation by which KAI remembers the job that it derived a PodGroup from.
const TOP_OWNER: &str = "kai.scheduler/top-owner-metadata";

/// Settings of a hand-written PodGroup, each with its meaning and its counterpart.
const SETTINGS: [(&str, &str, &str); 5] = [
    (
        "minMember",
        "is the smallest number of pods, and in Trellis all pods except surplus start together",
        "write minReplicas into a task group that can run with fewer pods (docs/elastic.md)",
    ),
    (
        "minSubGroup",
        "is the smallest number of sub-groups, and in Trellis all task groups of the gang start together",
        "write membership: BestEffort into a task group that the gang can run without (docs/elastic.md)",
    ),
    (
        "queue",
        "is the queue of the pods, and a TrainingJob names its own",
        "write spec.queueName into the TrainingJob",
    ),
    (
        "priorityClassName",
        "is the class of the pods, and a TrainingJob names its own",
        "write spec.priorityClassName into the TrainingJob",
    ),
    (
        "preemptibility",
        "protects the pods, and a TrainingJob has its own protection",
        "write spec.preemptibility into the TrainingJob",
    ),
];

/// Reads a PodGroup. Notes say what the user must write into the TrainingJob of its pods.
pub(crate) fn convert_pod_group(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let Some(name) = metadata::object_name(root) else {
        return Vec::new();
    };
    let namespace = root.object("metadata").and_then(|m| m.text("namespace"));
    let name = format!("{}/{name}", namespace.as_deref().unwrap_or("default"));
    if is_derived(root.value()) {
        if let Some(spec) = root.get("spec") {
            spec.note(
                format!("of {name:?} repeats what KAI derived from a job, and Trellis creates a PodGroup for each TrainingJob"),
                "import the job itself",
            );
        }
        return Vec::new();
    }
    let Some(spec) = root.object("spec") else {
        root.log()
            .add_problem("spec", "is required: add it, or leave the PodGroup out");
        return Vec::new();
    };
    for (key, reason, instead) in SETTINGS {
        spec.note_at(key, reason, instead);
    }
    let levels = read_levels(&spec, context);
    spec.note_at(
        "topologyConstraint",
        "is about all pods, and a TrainingJob has its own topology",
        &match levels.as_slice() {
            [] => "leave it out".to_owned(),
            levels => format!("write {} into its spec", levels.join(", ")),
        },
    );
    let groups = spec.objects("subGroups");
    for group in &groups {
        let own = group.value().get("name");
        let mut others = groups.iter();
        if others.any(|other| own.is_some() && other.value().get("parent") == own) {
            let levels = read_levels(group, context);
            group.note(
                format!("of {name:?} spans the sub-groups below it, and in Trellis only spec.topology spans several task groups"),
                match levels.as_slice() {
                    [] => "leave it out".to_owned(),
                    levels => format!(
                        "write {} into the spec if all task groups may share one domain",
                        levels.join(", ")
                    ),
                },
            );
        } else {
            note_leaf(group, &name, context);
        }
    }
    Vec::new()
}

/// Returns true if KAI created the PodGroup for a job.
fn is_derived(pod_group: &Value) -> bool {
    let owners = pod_group.pointer("/metadata/ownerReferences");
    let annotations = pod_group.pointer("/metadata/annotations");
    owners.is_some() || annotations.is_some_and(|keys| keys.get(TOP_OWNER).is_some())
}

/// Notes what a sub-group with pods means for their task group.
fn note_leaf(group: &Fields<'_>, pod_group: &str, context: &ImportContext) {
    let minimum = group.integer("minMember");
    let minimum = minimum.map(|minimum| format!("minReplicas: {minimum}"));
    let levels = read_levels(group, context).into_iter();
    let fields: Vec<String> = minimum.into_iter().chain(levels).collect();
    let instead = match fields.as_slice() {
        [] => "write a task group for its pods".to_owned(),
        fields => format!(
            "write {} into the task group of its pods",
            fields.join(", ")
        ),
    };
    let reason = format!("is a sub-group of {pod_group:?}, and becomes a task group in Trellis");
    group.note(reason, instead);
}

/// Returns the fields of Trellis for the levels in `topologyConstraint`.
fn read_levels(owner: &Fields<'_>, context: &ImportContext) -> Vec<String> {
    let Some(constraint) = owner.object("topologyConstraint") else {
        return Vec::new();
    };
    let level = |field: &str, key: &str| {
        let level = read_level(&constraint, key, context)?;
        Some(format!("topology.{field}: {level}"))
    };
    let levels = [
        level("required", "requiredTopologyLevel"),
        level("preferred", "preferredTopologyLevel"),
    ];
    levels.into_iter().flatten().collect()
}
