//! Labels and annotations of other queueing systems.
//! They have no effect on a TrainingJob.

use trellis_api::TrainingJob;

/// Each key, and the field of a TrainingJob with the same meaning.
const KEYS: [(&str, &str); 11] = [
    ("kueue.x-k8s.io/queue-name", "spec.queueName"),
    ("kueue.x-k8s.io/priority-class", "spec.priorityClassName"),
    (
        "kueue.x-k8s.io/podset-required-topology",
        "spec.topology.required",
    ),
    (
        "kueue.x-k8s.io/podset-preferred-topology",
        "spec.topology.preferred",
    ),
    (
        "kueue.x-k8s.io/podset-slice-required-topology",
        "topology.slices of a task group",
    ),
    (
        "kueue.x-k8s.io/podset-slice-required-topology-constraints",
        "topology.slices of a task group",
    ),
    (
        "kueue.x-k8s.io/max-exec-time-seconds",
        "spec.deadlines.activeSeconds",
    ),
    ("scheduling.volcano.sh/queue-name", "spec.queueName"),
    (
        "scheduling.volcano.sh/group-min-member",
        "minReplicas of a task group",
    ),
    ("kai.scheduler/queue", "spec.queueName"),
    ("runai/queue", "spec.queueName"),
];

/// Returns a note for each of these keys on a job.
pub(crate) fn note_foreign_keys(jobs: &[TrainingJob]) -> Vec<String> {
    let notes = jobs.iter().flat_map(|job| {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let labels = job.metadata.labels.iter().flatten();
        let annotations = job.metadata.annotations.iter().flatten();
        let labels = labels.map(|(key, _)| ("labels", key));
        let annotations = annotations.map(|(key, _)| ("annotations", key));
        labels.chain(annotations).filter_map(move |(map, key)| {
            let (_, field) = KEYS.iter().find(|(known, _)| known == key)?;
            Some(format!(
                "TrainingJob {name}: metadata.{map}[{key:?}] has no effect: write {field}"
            ))
        })
    });
    notes.collect()
}
