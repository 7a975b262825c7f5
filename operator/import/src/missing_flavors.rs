//! Flavors that queues name and no document defines.

use std::collections::BTreeSet;

use serde_json::Value;
use trellis_api::queue::{DEFAULT_FLAVOR, TrainingQueue};

use crate::ConvertedDocument;
use crate::field_log::FieldLog;
use crate::imported_object::ImportedObject;

/// Adds a note for each missing flavor, at the first queue that names it.
pub(crate) fn note_missing(converted: &[ConvertedDocument<'_>]) {
    let objects = converted.iter().flat_map(|document| &document.objects);
    let printed = objects.filter_map(|object| match object {
        ImportedObject::ResourceFlavor(flavor) => flavor.metadata.name.clone(),
        _ => None,
    });
    let mut known: BTreeSet<String> = printed.collect();
    // The default flavor contains every node and needs no object.
    known.insert(DEFAULT_FLAVOR.to_owned());
    for document in converted {
        for object in &document.objects {
            if let ImportedObject::Queue(queue) = object {
                note_queue(queue, &document.log, &mut known);
            }
        }
    }
}

fn note_queue(queue: &TrainingQueue, log: &FieldLog, known: &mut BTreeSet<String>) {
    for (at, group) in queue.spec.resource_groups.iter().enumerate() {
        for (index, flavor) in group.flavors.iter().enumerate() {
            if known.insert(flavor.name.clone()) {
                log.note(
                    &format!("spec.resourceGroups[{at}].flavors[{index}].name"),
                    Some(&Value::from(flavor.name.as_str())),
                    "has no ResourceFlavor in the input, and no job starts on a flavor that does not exist",
                    "add the ResourceFlavor's document to the input, unless the cluster has the flavor",
                );
            }
        }
    }
}
