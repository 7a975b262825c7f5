//! Existing queues of the cluster, and how the output would change them.

use serde_json::{Map, Value};
use trellis_api::queue::TrainingQueue;

use crate::ConvertedDocument;
use crate::field_log::FieldLog;
use crate::imported_object::ImportedObject;

/// Notes each field in which an imported queue differs from the existing queue of its name.
pub(crate) fn note_changes(converted: &[ConvertedDocument<'_>], existing: &[TrainingQueue]) {
    for document in converted {
        for object in &document.objects {
            let ImportedObject::Queue(queue) = object else {
                continue;
            };
            let name = &queue.metadata.name;
            if let Some(before) = existing.iter().find(|q| q.metadata.name == *name) {
                note_differences(before, queue, &document.log);
            }
        }
    }
}

fn note_differences(before: &TrainingQueue, after: &TrainingQueue, log: &FieldLog) {
    let name = after.metadata.name.as_deref().unwrap_or_default();
    let (before, after) = (nonempty_fields(before), nonempty_fields(after));
    for (key, old) in &before {
        let path = format!("spec.{key}");
        match after.get(key) {
            Some(new) if new == old => {}
            Some(new) => log.note(
                &path,
                Some(old),
                format!(
                    "is the value in the cluster's queue {name:?}, and applying this TrainingQueue changes it to {new}"
                ),
                "write the value that you want, or leave the TrainingQueue out",
            ),
            None => log.note(
                &path,
                Some(old),
                format!("is set in the cluster's queue {name:?}, and applying this TrainingQueue removes it"),
                "add it, or leave the TrainingQueue out",
            ),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        log.note(
            &format!("spec.{key}"),
            Some(new),
            format!("is not set in the cluster's queue {name:?}, and applying this TrainingQueue adds it"),
            "leave the TrainingQueue out if you do not want that",
        );
    }
}

/// Returns the fields of the spec that are not empty.
fn nonempty_fields(queue: &TrainingQueue) -> Map<String, Value> {
    match serde_json::to_value(&queue.spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
