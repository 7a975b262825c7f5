//! No part of a document is dropped silently: each added field is noted or carried over, and each
//! changed value changes the result.

use serde_json::{Value, json};
use trellis_api::document::{self, Document};
use trellis_import::{ConversionOptions, ImportedDocument, import};

use super::{documents, inputs};

const MARK: &str = "zzUnknown";

/// Returns a document with this content.
fn document(value: &Value) -> Document {
    let text = serde_json::to_string(value).unwrap();
    document::split(&text).unwrap().remove(0)
}

/// Collects every position in a value, as a pointer and as a path.
fn places(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    found.push((pointer.to_owned(), path.to_owned()));
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let inside = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                places(
                    value,
                    &format!("{pointer}/{}", escaped(key)),
                    &inside,
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                places(
                    value,
                    &format!("{pointer}/{at}"),
                    &format!("{path}[{at}]"),
                    found,
                );
            }
        }
        _ => {}
    }
}

/// Imports the documents of an input after changing one value.
fn import_with_change(
    values: &[Value],
    at: usize,
    pointer: &str,
    change: impl Fn(&mut Value),
) -> Vec<ImportedDocument> {
    let changed = values.iter().enumerate().map(|(index, value)| {
        let mut value = value.clone();
        if index == at {
            change(value.pointer_mut(pointer).unwrap());
        }
        document(&value)
    });
    let documents: Vec<_> = changed.collect();
    import(&documents, &ConversionOptions::default())
}

/// Describes the result of an import, without line numbers.
fn describe_outcome(imported: &[ImportedDocument]) -> Vec<String> {
    let fields_of = |imported_document: &ImportedDocument| {
        let notes = imported_document
            .notes
            .iter()
            .map(|note| format!("{} {}", note.path, note.text()));
        let problems = imported_document
            .problems
            .iter()
            .map(|p| format!("{} {}", p.field, p.message));
        let objects = imported_document
            .objects
            .iter()
            .map(|o| serde_json::to_string(o).unwrap());
        notes.chain(problems).chain(objects).collect::<Vec<_>>()
    };
    imported.iter().flat_map(fields_of).collect()
}

/// Fields that the API server writes express no intent of the user.
fn is_server_field(path: &str) -> bool {
    path.starts_with("status") || ["metadata.uid", "metadata.creationTimestamp"].contains(&path)
}

fn values(text: &str) -> Vec<Value> {
    documents(text)
        .iter()
        .map(|d| d.decode().unwrap())
        .collect()
}

#[test]
fn unknown_field_is_noted_with_its_path() {
    let (mut count, mut lost) = (0, Vec::new());
    for (name, text) in inputs() {
        let values = values(&text);
        for (at, value) in values.iter().enumerate() {
            let mut all = Vec::new();
            places(value, "", "", &mut all);
            all.retain(|(pointer, path)| {
                !is_server_field(path) && value.pointer(pointer).unwrap().is_object()
            });
            for (pointer, path) in all {
                let imported = import_with_change(&values, at, &pointer, |place| {
                    place[MARK] = json!(MARK);
                });
                let expected = if path.is_empty() {
                    MARK.to_owned()
                } else {
                    format!("{path}.{MARK}")
                };
                let imported_document = &imported[at];
                let noted = imported_document
                    .notes
                    .iter()
                    .filter(|note| !note.value.is_empty());
                let noted = noted.map(|note| note.path.as_str());
                let noted =
                    noted.chain(imported_document.problems.iter().map(|p| p.field.as_str()));
                // A note about an enclosing field also covers the mark.
                let is_told = noted.into_iter().any(|noted| {
                    !noted.is_empty()
                        && expected
                            .strip_prefix(noted)
                            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                });
                let objects = serde_json::to_string(&imported_document.objects).unwrap();
                if !is_told && !objects.contains(MARK) {
                    lost.push(format!("{name} {expected}"));
                }
                count += 1;
            }
        }
    }
    assert_eq!(lost, Vec::<String>::new());
    assert!(count > 250, "{count}");
}

/// Returns true for fields whose value has no effect by itself.
fn has_no_effect(path: &str) -> bool {
    const ENDS: [&str; 12] = [
        // A fieldRef always has this version.
        "fieldRef.apiVersion",
        // Kueue suspends jobs that it has not admitted.
        "spec.suspend",
        "runPolicy.suspend",
        // Running more pods at once than there are in total has no effect.
        "spec.parallelism",
        // Each pod has an address from the beginning.
        "plugins.svc[0]",
        // A Job restarts a failed pod, whichever component does it.
        "spec.template.spec.restartPolicy",
        // With only one dependency, `any` means `all`.
        "dependsOn.iteration",
        // The image determines the version of Ray.
        "rayVersion",
        // The number of workers is fixed and lies between these limits.
        "rayClusterSpec.workerGroupSpecs[0].minReplicas",
        "rayClusterSpec.workerGroupSpecs[0].maxReplicas",
        // The autoscaler sets this number. The minimum and the maximum have an effect.
        "spec.workerGroupSpecs[0].replicas",
        // The direction of a secret has no effect on the import.
        "wandb.direction",
    ];
    ENDS.iter().any(|end| path.ends_with(end))
        || (path.contains("containers[") && path.ends_with("].name") && !path.contains("env["))
        // A port that the framework itself opens.
        || path.ends_with("ports[0].containerPort")
}

#[test]
fn every_changed_value_changes_the_result() {
    let (mut count, mut lost) = (0, Vec::new());
    for (name, text) in inputs() {
        let values = values(&text);
        let imported = import_with_change(&values, 0, "", |_| {});
        let noted = imported.iter().flat_map(|imported_document| {
            let noted = imported_document
                .notes
                .iter()
                .filter(|note| !note.value.is_empty());
            noted.map(|note| (imported_document.document, note.path.clone()))
        });
        let noted: Vec<_> = noted.collect();
        let before = describe_outcome(&imported);
        for (at, value) in values.iter().enumerate() {
            let mut all = Vec::new();
            places(value, "", "", &mut all);
            for (pointer, path) in all {
                let changed = match value.pointer(&pointer).unwrap() {
                    Value::String(text) => json!(format!("{text}9")),
                    Value::Number(number) => json!(number.as_i64().unwrap() + 1),
                    Value::Bool(given) => json!(!given),
                    _ => continue,
                };
                if is_server_field(&path) || has_no_effect(&path) {
                    continue;
                }
                // A note on an enclosing field shortens its value, so the change may not show.
                if noted.iter().any(|(of, noted)| {
                    *of == at && path != *noted && path.starts_with(noted.as_str())
                }) {
                    continue;
                }
                let after = describe_outcome(&import_with_change(&values, at, &pointer, |place| {
                    *place = changed.clone()
                }));
                if before == after {
                    lost.push(format!("{name} {path}: {changed}"));
                }
                count += 1;
            }
        }
    }
    assert_eq!(lost, Vec::<String>::new());
    assert!(count > 400, "{count}");
}

/// Null counts as absent, and is not noted.
#[test]
fn null_counts_as_absent() {
    for (_, text) in inputs() {
        let values = values(&text);
        let before = describe_outcome(&import_with_change(&values, 0, "", |_| {}));
        let after = describe_outcome(&import_with_change(&values, 0, "/metadata", |metadata| {
            metadata["creationTimestamp"] = Value::Null;
            metadata["zz"] = Value::Null;
        }));
        assert_eq!(before, after);
    }
}
