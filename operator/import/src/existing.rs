//! Queues that the cluster has already, and what applying changes of them.

use serde_json::{Map, Value};
use trellis_api::queue::Queue;

use crate::Turned;
use crate::log::Log;
use crate::object::Object;

/// Tells of each field of an existing Queue that the Queue of the same name has otherwise.
pub(crate) fn tell(turned: &[Turned<'_>], existing: &[Queue]) {
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

fn compare(before: &Queue, after: &Queue, log: &Log) {
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
                    "stands in the Queue {name:?} of the cluster, and applying this makes it {new}"
                ),
                "write there what is meant, or leave the Queue out",
            ),
            None => log.note(
                &path,
                Some(old),
                format!("stands in the Queue {name:?} of the cluster, and applying this drops it"),
                "add it, or leave the Queue out",
            ),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        log.note(
            &format!("spec.{key}"),
            Some(new),
            format!("is not in the Queue {name:?} of the cluster, and applying this adds it"),
            "leave the Queue out if that is not meant",
        );
    }
}

/// The fields of the spec that say something.
fn fields(queue: &Queue) -> Map<String, Value> {
    match serde_json::to_value(&queue.spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
