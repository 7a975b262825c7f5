//! Renders the created objects as text.

use std::fmt::Write as _;

use serde_json::{Value, json};
use trellis_api::document;

use crate::{ImportNote, ImportedDocument, ImportedObject};

/// A note on every imported job.
const NETWORK_NOTE: &str =
    "# Its pods can reach only each other and DNS: open other connections in spec.network.\n";

/// Renders the objects as YAML documents, with their origin and their notes in comments above them.
/// Objects that jobs refer to come before the jobs.
#[must_use]
pub fn render_yaml(imported: &[ImportedDocument]) -> String {
    let mut text = String::new();
    let of_one = |document| ImportedDocument::objects_with_notes(document);
    let mut objects: Vec<_> = imported.iter().flat_map(of_one).collect();
    objects.sort_by_key(|(_, object, _)| object.apply_order());
    for (from, object, notes) in objects {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let _ = writeln!(text, "# From {from}.");
        for note in notes {
            let _ = writeln!(text, "# {}", format_comment(note));
        }
        if let ImportedObject::TrainingJob(job) = object
            && job.spec.network.is_none()
        {
            text.push_str(NETWORK_NOTE);
        }
        // This cannot fail, because the validation has already serialized the object.
        text.push_str(&document::to_yaml(object).unwrap_or_default());
    }
    text
}

impl ImportedDocument {
    /// Returns each object with its origin. The first object has all notes.
    fn objects_with_notes(&self) -> impl Iterator<Item = (&str, &ImportedObject, &[ImportNote])> {
        self.objects.iter().enumerate().map(|(at, object)| {
            let notes = if at == 0 { self.notes.as_slice() } else { &[] };
            (self.from.as_str(), object, notes)
        })
    }
}

fn format_comment(note: &ImportNote) -> String {
    let line = format!("{}: {}", note.path, note.text());
    // A line break would end the comment.
    line.replace(|c: char| c.is_control(), " ")
}

/// Renders the result as JSON: origin, objects, notes and problems of each document.
#[must_use]
pub fn render_json(imported: &[ImportedDocument]) -> Value {
    let lines_of = |document: &ImportedDocument| {
        let problems = document.problems.iter().map(|problem| {
            json!({"path": problem.field, "message": problem.message,
                "line": problem.line, "column": problem.column})
        });
        json!({"from": document.from, "objects": document.objects, "notes": document.notes,
            "problems": problems.collect::<Vec<_>>()})
    };
    imported.iter().map(lines_of).collect()
}
