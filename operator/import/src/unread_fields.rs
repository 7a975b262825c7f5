//! Adds notes about the fields that no importer has read.

use serde_json::Value;

use crate::field_log::FieldLog;

/// Fields that the API server and its tools write; they express no intent of the user.
const IGNORED: [&str; 12] = [
    "apiVersion",
    "kind",
    "status",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.managedFields",
    "metadata.selfLink",
    "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
];

/// Adds a note for each field that was not read.
pub(crate) fn note_unread(value: &Value, log: &FieldLog) {
    // A document that cannot be imported carries nothing over, so notes would not help.
    if !log.has_problems() {
        note_unread_below(value, "", log);
    }
}

fn note_unread_below(value: &Value, path: &str, log: &FieldLog) {
    let inside = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    if IGNORED.contains(&path) || log.is_read(path) {
        return;
    }
    match value {
        // Null counts as absent.
        Value::Null => {}
        Value::Object(map) if path.is_empty() || log.is_opened(path) => {
            for (key, value) in map {
                note_unread_below(value, &inside(key), log);
            }
        }
        Value::Array(items) if log.is_opened(path) => {
            for (index, value) in items.iter().enumerate() {
                note_unread_below(value, &format!("{path}[{index}]"), log);
            }
        }
        value => {
            let (reason, instead) = note_texts(path);
            log.note(path, Some(value), reason, instead);
        }
    }
}

/// Returns the note on an unread field. Some fields exist in every Kubernetes object.
fn note_texts(path: &str) -> (&'static str, &'static str) {
    match path {
        "metadata.ownerReferences" => (
            "is left out: the owner of the original object does not own the imported one",
            "let the owner create a TrainingJob",
        ),
        "metadata.finalizers" => (
            "is left out: its controllers do not handle the imported object",
            "let controllers that wait for its end watch status.phase",
        ),
        "metadata.generateName" => ("is left out: the imported object has a fixed name", ""),
        _ => (
            "is left out: Trellis has no known equivalent",
            "look for an equivalent field in docs/api.md, or leave it out",
        ),
    }
}
