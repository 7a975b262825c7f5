//! Records the fields of one document that were read, and the notes and problems.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use trellis_api::document::{Document, Problem};

/// Greatest number of reported problems of one document. A document with more is probably of
/// another kind.
const MAX_PROBLEMS: usize = 64;
/// Greatest length of a value in a note, in characters.
const MAX_VALUE_LENGTH: usize = 60;

/// A field that was not carried over exactly.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The field, such as `spec.tasks[0].maxRetry`.
    pub path: String,
    /// The field's value, shortened. Empty: the field is absent.
    pub value: String,
    /// How the field is imported, and why.
    pub why: String,
    /// The replacement that the user can make. Empty: nothing.
    pub instead: String,
    /// Its line in the file, from 1. 0: not known.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

impl ImportNote {
    /// Returns the note without its path, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let instead = if self.instead.is_empty() {
            String::new()
        } else {
            format!("; {}", self.instead)
        };
        let value = if self.value.is_empty() {
            String::new()
        } else {
            format!("{} ", self.value)
        };
        format!("{value}{}{instead}", self.why)
    }
}

/// A problem that keeps a document from being imported.
struct FieldProblem {
    path: String,
    message: String,
}

/// The read fields, notes and problems of one document.
#[derive(Default)]
pub(crate) struct FieldLog {
    /// Paths that were read or noted, including all fields below them.
    read: RefCell<BTreeSet<String>>,
    /// Paths of known mappings and lists. Their fields are checked one by one.
    opened: RefCell<BTreeSet<String>>,
    /// Paths whose value has no effect and needs no note.
    ignored: RefCell<BTreeSet<String>>,
    notes: RefCell<Vec<ImportNote>>,
    problems: RefCell<Vec<FieldProblem>>,
    /// Fields of the imported objects, each with the field of the document that it comes from.
    origins: RefCell<BTreeMap<String, String>>,
}

impl FieldLog {
    /// Marks a field and all fields below it as read.
    pub(crate) fn mark_read(&self, path: &str) {
        self.read.borrow_mut().insert(path.to_owned());
    }

    /// Marks a mapping or list as known. Its fields are checked one by one.
    pub(crate) fn mark_opened(&self, path: &str) {
        self.opened.borrow_mut().insert(path.to_owned());
    }

    /// Marks a field as having no effect.
    pub(crate) fn ignore(&self, path: &str) {
        self.mark_read(path);
        self.ignored.borrow_mut().insert(path.to_owned());
    }

    pub(crate) fn is_ignored(&self, path: &str) -> bool {
        self.ignored.borrow().contains(path)
    }

    pub(crate) fn is_read(&self, path: &str) -> bool {
        self.read.borrow().contains(path)
    }

    /// Returns true if the field is known, or a field below it was read.
    pub(crate) fn is_opened(&self, path: &str) -> bool {
        let within = |end: char| {
            let start = format!("{path}{end}");
            let read_paths = self.read.borrow();
            let next = read_paths.range(start.clone()..).next();
            next.is_some_and(|next| next.starts_with(&start))
        };
        self.opened.borrow().contains(path) || within('.') || within('[')
    }

    /// Adds a note about a field. With a value, the note covers the whole field.
    pub(crate) fn note(
        &self,
        path: &str,
        value: Option<&Value>,
        why: impl Into<String>,
        instead: impl Into<String>,
    ) {
        if value.is_some() {
            self.mark_read(path);
        }
        self.notes.borrow_mut().push(ImportNote {
            path: path.to_owned(),
            value: value.map(shorten_value).unwrap_or_default(),
            why: why.into(),
            instead: instead.into(),
            line: 0,
            column: 0,
        });
    }

    /// Records a problem: the document cannot be imported.
    pub(crate) fn add_problem(&self, path: &str, message: impl Into<String>) {
        self.mark_read(path);
        let mut wrong = self.problems.borrow_mut();
        // A missing field inside a field that is already wrong is not reported too.
        let is_within = |known: &str| {
            let rest = known.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if wrong.len() < MAX_PROBLEMS
            && (path.is_empty() || !wrong.iter().any(|known| is_within(&known.path)))
        {
            wrong.push(FieldProblem {
                path: path.to_owned(),
                message: message.into(),
            });
        }
    }

    /// Records the field of the document that a field of an imported object comes from.
    pub(crate) fn set_origin(&self, field: String, path: &str) {
        self.origins.borrow_mut().insert(field, path.to_owned());
    }

    /// Returns the field of the document that a field of an imported object, or the field around
    /// it, comes from. Empty: it is not known.
    pub(crate) fn origin_of(&self, field: &str) -> String {
        let origins = self.origins.borrow();
        let is_within = |known: &str| {
            let rest = field.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let mut known = origins.iter().filter(|(known, _)| is_within(known));
        // The innermost field comes last.
        known
            .next_back()
            .map(|(_, path)| path.clone())
            .unwrap_or_default()
    }

    /// Returns true if a problem keeps the document from being imported.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Returns all notes and problems, with their positions in the document.
    pub(crate) fn into_notes_and_problems(
        self,
        document: &Document,
    ) -> (Vec<ImportNote>, Vec<Problem>) {
        let mut notes = self.notes.into_inner();
        for note in &mut notes {
            let place = document.problem(&note.path, "");
            note.line = place.line;
            note.column = place.column;
            // For an item of a List, this is the path in the whole document.
            note.path = place.field;
        }
        notes.sort_by_key(|note| (note.line, note.column));
        notes.dedup_by(|a, b| a.path == b.path && a.why == b.why);
        let wrong = self.problems.into_inner().into_iter();
        let problems = wrong.map(|w| document.problem(&w.path, w.message));
        let mut problems: Vec<Problem> = problems.collect();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        (notes, problems)
    }
}

/// Shortens a value for a note.
fn shorten_value(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    // Control characters could steer a terminal or end a YAML comment.
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).collect();
    match text.char_indices().nth(MAX_VALUE_LENGTH) {
        None => text,
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}
