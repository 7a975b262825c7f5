//! Realistic documents of other systems, and the objects made from them. After a change to the
//! output, review the golden files in `snapshots` and accept them with `INSTA_UPDATE=always`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

mod completeness;
mod documents;
mod enums;
mod golden;
mod invalid;
mod kai;
mod pod_templates;
mod policies;
mod priority;
mod queues;
mod rules;
mod topologies;
mod volcano_quotas;

use std::path::{Path, PathBuf};

use serde_json::Value;
use trellis_api::document::{self, Document};
use trellis_import::{ConversionOptions, ImportedDocument, import};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/input")
}

/// Returns the inputs, sorted by name.
fn inputs() -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder()).unwrap();
    let mut inputs: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    inputs
}

fn documents(text: &str) -> Vec<Document> {
    document::split(text).unwrap()
}

/// Imports a text, without options.
fn import_text(text: &str) -> Vec<ImportedDocument> {
    import(&documents(text), &ConversionOptions::default())
}

/// Imports the only document of a text, and returns its only object as JSON.
fn import_object(text: &str) -> Value {
    let imported = import_text(text);
    let [one] = imported.as_slice() else {
        panic!("{imported:?}")
    };
    assert_eq!(one.problems, [], "{text}");
    let [object] = one.objects.as_slice() else {
        panic!("{one:?}")
    };
    serde_json::to_value(object).unwrap()
}

/// Returns the notes with their paths.
fn import_notes(text: &str) -> Vec<String> {
    let imported = import_text(text);
    let all = imported.iter().flat_map(|document| &document.notes);
    all.map(|note| format!("{}: {}", note.path, note.text()))
        .collect()
}
