//! Parent queues that no document defines. Kueue and Volcano do not require them, but Trellis does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use trellis_api::document::Document;
use trellis_api::queue::{QueueSpec, TrainingQueue};

use crate::Turned;
use crate::log::Log;
use crate::object::{Made, Object};

/// Whose queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum System {
    Kueue,
    Volcano,
}

impl System {
    fn of(document: &Document) -> Option<Self> {
        let group = document.api_version.split('/').next().unwrap_or_default();
        match (group, document.kind.as_str()) {
            ("kueue.x-k8s.io", "ClusterQueue" | "Cohort") => Some(Self::Kueue),
            ("scheduling.volcano.sh", "Queue") => Some(Self::Volcano),
            _ => None,
        }
    }
}

/// Creates the missing parents of the imported queues, and notes each at the first queue below it.
/// A parent that exists in the cluster stays unchanged.
pub(crate) fn make(turned: &mut [Turned<'_>], made: &mut Made, existing: &[TrainingQueue]) {
    let mut printed: BTreeMap<String, System> = BTreeMap::new();
    let mut refused: BTreeSet<(System, String)> = BTreeSet::new();
    for one in turned.iter() {
        let Some(system) = System::of(one.document) else {
            continue;
        };
        match queue(&one.objects) {
            Some(queue) => {
                let name = queue.metadata.name.clone().unwrap_or_default();
                printed.insert(name, system);
            }
            // Nothing is below a ClusterQueue.
            None if one.document.kind == "ClusterQueue" => {}
            None => {
                let name = one.value.get("metadata").and_then(|m| m.get("name"));
                let name = name.and_then(Value::as_str).unwrap_or_default();
                refused.insert((system, name.to_owned()));
            }
        }
    }
    for one in turned {
        let parent = queue(&one.objects).and_then(|queue| queue.spec.parent_name.clone());
        let (Some(system), Some(parent)) = (System::of(one.document), parent) else {
            continue;
        };
        let log = &one.log;
        match printed.get(&parent) {
            Some(of) if *of == system => {}
            Some(_) => tell(
                one.value,
                log,
                &parent,
                "is a TrainingQueue of another system's document here",
                "rename one of the two",
            ),
            None if refused.contains(&(system, parent.clone())) => tell(
                one.value,
                log,
                &parent,
                "could not be turned, and without it no job of this queue starts",
                "mend its document",
            ),
            None if existing
                .iter()
                .any(|q| q.metadata.name.as_ref() == Some(&parent)) => {}
            None => {
                let object = named(&parent);
                if !made.takes(&object, log) {
                    one.objects.clear();
                    continue;
                }
                let (why, instead) = missing(system);
                tell(one.value, log, &parent, why, instead);
                one.objects.insert(0, object);
                printed.insert(parent, system);
            }
        }
    }
}

fn queue(objects: &[Object]) -> Option<&TrainingQueue> {
    objects.iter().find_map(|object| match object {
        Object::Queue(queue) => Some(queue),
        _ => None,
    })
}

fn missing(system: System) -> (&'static str, &'static str) {
    match system {
        System::Kueue => (
            "is no Cohort of the documents: it is made, a TrainingQueue without quota of its own",
            "leave it out where the cluster has one, or give the Cohort's document too",
        ),
        System::Volcano => (
            "is not among the documents: it is made, without quota of its own",
            "leave it out where the cluster has it",
        ),
    }
}

/// Notes a parent at the field that names it, or would name it.
fn tell(value: &Value, log: &Log, parent: &str, why: &str, instead: &str) {
    let spec = value.get("spec");
    let is_named = |key: &&str| {
        let word = spec.and_then(|spec| spec.get(key)).and_then(Value::as_str);
        word == Some(parent)
    };
    let keys = ["cohort", "cohortName", "parent", "parentName"];
    match keys.into_iter().find(is_named) {
        Some(key) => {
            let path = format!("spec.{key}");
            log.note(&path, Some(&Value::from(parent)), why, instead);
        }
        // No field names it: all queues of Volcano are below this one.
        None => log.note("spec.parent", None, format!("{parent:?} {why}"), instead),
    }
}

/// A queue with only a name.
fn named(name: &str) -> Object {
    let mut queue = TrainingQueue::new("", QueueSpec::default());
    queue.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    Object::Queue(queue)
}
