//! Queues that the cluster already has, and the changes to them from applying the output.

use serde_json::{Map, Value};
use trellis_api::queue::TrainingQueue;

use crate::Turned;
use crate::log::Log;
use crate::object::Object;

/// Notes each field in which an imported queue differs from the existing queue of its name.
pub(crate) fn tell(turned: &[Turned<'_>], existing: &[TrainingQueue]) {
    for one in turned {
        for object in &one.objects {
            let Object::Queue(queue) = object else {
                continue;
            };
            let name = &queue.metadata.name;
            if let Some(before) = existing.iter().find(|q| q.metadata.name == *name) {
                compare(before, queue, &one.log);
            }
        }
    }
}

fn compare(before: &TrainingQueue, after: &TrainingQueue, log: &Log) {
    let name = after.metadata.name.as_deref().unwrap_or_default();
    let (before, after) = (fields(before), fields(after));
    for (key, old) in &before {
        let path = format!("spec.{key}");
        match after.get(key) {
            Some(new) if new == old => {}
            Some(new) => log.note(
                &path,
                Some(old),
                format!(
                    "stands in the queue {name:?} of the cluster, and applying this makes it {new}"
                ),
                "write there what is meant, or leave the TrainingQueue out",
            ),
            None => log.note(
                &path,
                Some(old),
                format!("stands in the queue {name:?} of the cluster, and applying this drops it"),
                "add it, or leave the TrainingQueue out",
            ),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        log.note(
            &format!("spec.{key}"),
            Some(new),
            format!("is not in the queue {name:?} of the cluster, and applying this adds it"),
            "leave the TrainingQueue out if that is not meant",
        );
    }
}

/// The fields of the spec that say something.
fn fields(queue: &TrainingQueue) -> Map<String, Value> {
    match serde_json::to_value(&queue.spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
