//! Flavors that Queues name and that no document becomes.

use std::collections::BTreeSet;

use serde_json::Value;
use trellis_api::queue::{DEFAULT_FLAVOR, TrainingQueue};

use crate::Turned;
use crate::log::Log;
use crate::object::Object;

/// Notes missing flavors, at the first queue that names them.
pub(crate) fn tell(turned: &[Turned<'_>]) {
    let objects = turned.iter().flat_map(|one| &one.objects);
    let printed = objects.filter_map(|object| match object {
        Object::ResourceFlavor(flavor) => flavor.metadata.name.clone(),
        _ => None,
    });
    let mut known: BTreeSet<String> = printed.collect();
    // Every node: no object need be there.
    known.insert(DEFAULT_FLAVOR.to_owned());
    for one in turned {
        for object in &one.objects {
            if let Object::Queue(queue) = object {
                of_queue(queue, &one.log, &mut known);
            }
        }
    }
}

fn of_queue(queue: &TrainingQueue, log: &Log, known: &mut BTreeSet<String>) {
    for (at, group) in queue.spec.resource_groups.iter().enumerate() {
        for (of, flavor) in group.flavors.iter().enumerate() {
            if known.insert(flavor.name.clone()) {
                log.note(
                    &format!("spec.resourceGroups[{at}].flavors[{of}].name"),
                    Some(&Value::from(flavor.name.as_str())),
                    "is no ResourceFlavor that is made of the documents, and nothing starts on a flavor that is not there",
                    "leave it so where the cluster has one, or give the ResourceFlavor's document too",
                );
            }
        }
    }
}
