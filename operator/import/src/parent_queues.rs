//! Parent queues that no document defines. Trellis requires them; Kueue, Volcano and KAI do not.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use trellis_api::document::Document;
use trellis_api::queue::{QueueSpec, TrainingQueue};

use crate::ConvertedDocument;
use crate::field_log::FieldLog;
use crate::imported_object::{CreatedObjects, ImportedObject};

/// The system of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SourceSystem {
    Kueue,
    Volcano,
    Kai,
}

impl SourceSystem {
    fn from_document(document: &Document) -> Option<Self> {
        let group = document.api_version.split('/').next().unwrap_or_default();
        match (group, document.kind.as_str()) {
            ("kueue.x-k8s.io", "ClusterQueue" | "Cohort") => Some(Self::Kueue),
            ("scheduling.volcano.sh", "Queue") => Some(Self::Volcano),
            ("scheduling.run.ai", "Queue") => Some(Self::Kai),
            _ => None,
        }
    }
}

/// Creates the missing parents of the imported queues, and adds a note for each at its first child
/// queue. A parent that exists in the cluster stays unchanged.
pub(crate) fn create_parents(
    converted: &mut [ConvertedDocument<'_>],
    created: &mut CreatedObjects,
    existing: &[TrainingQueue],
) {
    let mut printed: BTreeMap<String, SourceSystem> = BTreeMap::new();
    let mut refused: BTreeSet<(SourceSystem, String)> = BTreeSet::new();
    for document in converted.iter() {
        let Some(system) = SourceSystem::from_document(document.document) else {
            continue;
        };
        match first_queue(&document.objects) {
            Some(queue) => {
                let name = queue.metadata.name.clone().unwrap_or_default();
                printed.insert(name, system);
            }
            // A ClusterQueue cannot be a parent.
            None if document.document.kind == "ClusterQueue" => {}
            None => {
                let name = document.value.get("metadata").and_then(|m| m.get("name"));
                let name = name.and_then(Value::as_str).unwrap_or_default();
                refused.insert((system, name.to_owned()));
            }
        }
    }
    for document in converted {
        let parent =
            first_queue(&document.objects).and_then(|queue| queue.spec.parent_name.clone());
        let (Some(system), Some(parent)) = (SourceSystem::from_document(document.document), parent)
        else {
            continue;
        };
        let log = &document.log;
        match printed.get(&parent) {
            Some(of) if *of == system => {}
            Some(_) => note_parent(
                document.value,
                (system, log),
                &parent,
                "is also the name of a queue in another system's document",
                "rename one of the two",
            ),
            None if refused.contains(&(system, parent.clone())) => note_parent(
                document.value,
                (system, log),
                &parent,
                "could not be imported, and no job of this queue starts without it",
                "correct its document",
            ),
            None if existing
                .iter()
                .any(|q| q.metadata.name.as_ref() == Some(&parent)) => {}
            None => {
                let object = queue_object(&parent);
                if !created.accept(&object, log) {
                    document.objects.clear();
                    continue;
                }
                let (reason, instead) = missing_parent_note(system);
                note_parent(document.value, (system, log), &parent, reason, instead);
                document.objects.insert(0, object);
                printed.insert(parent, system);
            }
        }
    }
}

fn first_queue(objects: &[ImportedObject]) -> Option<&TrainingQueue> {
    objects.iter().find_map(|object| match object {
        ImportedObject::Queue(queue) => Some(queue),
        _ => None,
    })
}

fn missing_parent_note(system: SourceSystem) -> (&'static str, &'static str) {
    match system {
        SourceSystem::Kueue => (
            "has no Cohort in the input, so a TrainingQueue without quota is created for it",
            "leave it out if the cluster has one, or add the Cohort's document to the input",
        ),
        SourceSystem::Volcano => (
            "is not in the input, so it is created without quota",
            "leave it out if the cluster has it",
        ),
        SourceSystem::Kai => (
            "is not in the input, so the importer creates it without quota",
            "set its nominalQuota to the capacity that no queue owns; remove it if the cluster already has it",
        ),
    }
}

/// Adds a note about a parent, at the field that names the parent.
fn note_parent(
    value: &Value,
    (system, log): (SourceSystem, &FieldLog),
    parent: &str,
    reason: &str,
    instead: &str,
) {
    let spec = value.get("spec");
    let is_named = |key: &&str| {
        let word = spec.and_then(|spec| spec.get(key)).and_then(Value::as_str);
        word == Some(parent)
    };
    let keys = [
        "cohort",
        "cohortName",
        "parent",
        "parentName",
        "parentQueue",
    ];
    match keys.into_iter().find(is_named) {
        Some(key) => {
            let path = format!("spec.{key}");
            log.note(&path, Some(&Value::from(parent)), reason, instead);
        }
        // No field names the root queue of Volcano and KAI, the parent of all other queues.
        None => {
            let path = match system {
                SourceSystem::Kai => "spec.parentQueue",
                SourceSystem::Kueue | SourceSystem::Volcano => "spec.parent",
            };
            log.note(path, None, format!("{parent:?} {reason}"), instead);
        }
    }
}

/// Returns a queue that only has a name.
fn queue_object(name: &str) -> ImportedObject {
    let mut queue = TrainingQueue::new("", QueueSpec::default());
    queue.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    ImportedObject::Queue(queue)
}
