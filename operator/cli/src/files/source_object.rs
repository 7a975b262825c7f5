//! An object of a file, and its position there.

use trellis_api::API_VERSION;
use trellis_api::document::{Document, Problem, Problems};

/// Namespace of an object of a file that names none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// An object, and the name of its file.
#[derive(Clone)]
pub(crate) struct SourceObject {
    pub(crate) document: Document,
    pub(crate) file: String,
}

impl SourceObject {
    /// Creates a problem of a field of the object.
    pub(crate) fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let problem = self.document.problem(field, message);
        problem.with_file(self.file.as_str())
    }

    /// Adds the file to problems of the document.
    pub(crate) fn to_problems(&self, problems: Problems) -> impl Iterator<Item = Problem> {
        let file = self.file.clone();
        problems
            .into_iter()
            .map(move |p| p.with_file(file.as_str()))
    }

    /// Returns true if the object has this kind of Trellis.
    pub(crate) fn is_kind(&self, kind: &str) -> bool {
        self.document.api_version == API_VERSION && self.document.kind == kind
    }
}
