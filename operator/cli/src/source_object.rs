//! An object of a file, and where it stands.

use trellis_api::document::{Document, Problem, Problems};

/// Group and version of our kinds.
pub(super) const OUR_VERSION: &str = "trellis.dev/v1alpha1";

/// An object, and the file that it is in.
#[derive(Clone)]
pub(super) struct SourceObject {
    pub(super) document: Document,
    pub(super) file: String,
}

impl SourceObject {
    /// Something that is wrong with it.
    pub(super) fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let problem = self.document.problem(field, message);
        problem.with_file(self.file.as_str())
    }

    /// The same, as the document says it.
    pub(super) fn to_problems(&self, problems: Problems) -> impl Iterator<Item = Problem> {
        let file = self.file.clone();
        problems
            .into_iter()
            .map(move |p| p.with_file(file.as_str()))
    }

    /// Whether it is of a kind of ours.
    pub(super) fn is_kind(&self, kind: &str) -> bool {
        self.document.api_version == OUR_VERSION && self.document.kind == kind
    }
}
