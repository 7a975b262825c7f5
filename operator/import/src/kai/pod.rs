//! KAI's labels and annotations of a pod template.

use trellis_api::topology::{Closeness, SliceLayer, SlicePolicy};

use super::topology::{PREFERRED, REQUIRED, read_level, read_topology_name};
use super::{NODE_POOL, PRIORITY_CLASS, QUEUE};
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::pod::{GroupDraft, ValueWithPath};

const SEGMENT_SIZE: &str = "kai.scheduler/segment-size";
const SEGMENT_REQUIRED: &str = "kai.scheduler/segment-topology-required-placement";
const SEGMENT_PREFERRED: &str = "kai.scheduler/segment-topology-preferred-placement";
/// Annotations that request a part of a GPU.
const GPU_PARTS: [&str; 2] = ["gpu-fraction", "gpu-memory"];
/// Annotations that have an effect only together with one of [`GPU_PARTS`].
const GPU_PART_OPTIONS: [&str; 2] = ["gpu-fraction-num-devices", "gpu-fraction-container-name"];

/// Reads KAI's labels and annotations of a pod template.
pub(crate) fn read_pod(template: &Fields<'_>, context: &ImportContext, pods: &mut GroupDraft) {
    let is_kai = pods.is_kai;
    let Some(metadata) = template.object("metadata") else {
        return;
    };
    if let Some(labels) = metadata.object("labels") {
        let value_of = |key: &str| {
            let value = labels.text(key)?;
            let path = labels.field_path(key);
            Some(ValueWithPath { value, path })
        };
        pods.node_pool = labels.text(NODE_POOL);
        pods.queue = value_of(QUEUE);
        let queue = pods.queue.as_ref();
        pods.has_missing_queue = queue.is_some_and(|q| !context.kai_queues.contains(&q.value));
        // The label has no domain, so it means KAI only in a pod of KAI.
        pods.priority_class = is_kai.then(|| value_of(PRIORITY_CLASS)).flatten();
    }
    let Some(annotations) = metadata.object("annotations") else {
        return;
    };
    for key in GPU_PARTS {
        annotations.note_at(
            key,
            "requests a part of a GPU, and in Trellis pods have whole GPUs, so these pods get none",
            "request nvidia.com/gpu or a MIG profile in gpus and gpuResource",
        );
    }
    for key in GPU_PART_OPTIONS {
        annotations.note_at(key, "applies only to a part of a GPU", "leave it out");
    }
    if is_kai {
        annotations.note_at(
            "pod-group-name",
            "puts the pods into a PodGroup of KAI, and in Trellis each job is its own gang",
            "write one TrainingJob with a task group for each workload of the PodGroup",
        );
    }
    // Kueue's annotations come first.
    if pods.group.topology.is_none() {
        read_topology(&annotations, context, pods);
    }
}

fn read_topology(annotations: &Fields<'_>, context: &ImportContext, pods: &mut GroupDraft) {
    read_topology_name(annotations, context);
    let (segments, policy) = read_segments(annotations, context).unzip();
    let topology = Closeness {
        required: read_level(annotations, REQUIRED, context),
        preferred: read_level(annotations, PREFERRED, context),
        balanced: None,
        slices: segments.into_iter().collect(),
        slice_policy: policy.flatten(),
    };
    let origins = [
        // The rules on slices and replicas concern the whole topology.
        ("topology", SEGMENT_SIZE, !topology.slices.is_empty()),
        ("topology.required", REQUIRED, topology.required.is_some()),
        (
            "topology.preferred",
            PREFERRED,
            topology.preferred.is_some(),
        ),
    ];
    let origins = origins.into_iter().filter(|(.., is_set)| *is_set);
    pods.origins
        .extend(origins.map(|(field, key, _)| (field, annotations.field_path(key))));
    pods.group.topology = Some(topology).filter(|topology| *topology != Closeness::default());
}

/// Reads the segments of the pods. In KAI, too, pods 0 to `segment-size` - 1 are the first segment.
fn read_segments(
    annotations: &Fields<'_>,
    context: &ImportContext,
) -> Option<(SliceLayer, Option<SlicePolicy>)> {
    let required = read_level(annotations, SEGMENT_REQUIRED, context);
    let preferred = read_level(annotations, SEGMENT_PREFERRED, context);
    let Some(size) = annotations.text(SEGMENT_SIZE) else {
        for key in [SEGMENT_REQUIRED, SEGMENT_PREFERRED] {
            annotations.note_at(
                key,
                "has no effect without kai.scheduler/segment-size, as in KAI",
                "add it, or leave this out",
            );
        }
        return None;
    };
    let Ok(pods) = size.parse::<i64>() else {
        let message = "must be the number of pods of a segment: write one, such as \"4\"";
        let path = annotations.field_path(SEGMENT_SIZE);
        annotations.log().add_problem(&path, message);
        return None;
    };
    if preferred.is_some() && required.is_some() {
        annotations.note_at(
            SEGMENT_PREFERRED,
            "is a finer preference for each segment, and slices of Trellis are required or preferred",
            "add a layer to topology.slices if the pods must be in one such domain",
        );
    } else if required.is_none() && preferred.is_none() {
        annotations.note_at(
            SEGMENT_SIZE,
            "has no level, so the task group has no slices",
            "write topology.slices if the pods of a segment must be in one domain",
        );
    }
    let policy = required.is_none().then_some(SlicePolicy::Preferred);
    let layer = SliceLayer {
        level: required.or(preferred)?,
        pods: Some(pods),
        at_most: None,
    };
    Some((layer, policy))
}
