//! The policy objects of files, and what is wrong with them, at its place there.

use std::collections::BTreeMap;

use trellis_api::document::Problem;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_policies::cedar::{self, Examined, Loader, ObjectKey, PolicyObject};

use super::block::Block;
use super::files::Piece;

/// Namespace of an object of a file that names none.
const NAMESPACE: &str = "default";

/// A policy object, where it is written.
pub(super) struct Written {
    pub(super) object: PolicyObject,
    pub(super) piece: Piece,
}

impl Written {
    /// The object that a piece holds. None: it holds none.
    pub(super) fn of(piece: &Piece) -> Option<Result<Self, Vec<Problem>>> {
        let source = &piece.source;
        let object = if source.is("ClusterJobPolicy") {
            let object = source.document.valid::<ClusterJobPolicy>();
            object.map(|object| PolicyObject::from(&object))
        } else if source.is("JobPolicy") {
            let object = source.document.valid::<JobPolicy>();
            object.map(|mut object| {
                let namespace = &mut object.metadata.namespace;
                namespace.get_or_insert_with(|| NAMESPACE.to_owned());
                PolicyObject::from(&object)
            })
        } else {
            return None;
        };
        let written = object.map(|object| Self {
            object,
            piece: piece.clone(),
        });
        Some(written.map_err(|problems| source.all(problems).collect()))
    }

    /// Something that is wrong with the object, at its place in the file.
    pub(super) fn problem(&self, said: &cedar::Problem) -> Problem {
        let message = format!("{}: {}", said.message, said.fix);
        let problem = self.piece.source.problem(&said.path, message);
        let Some(place) = &said.place else {
            return problem;
        };
        match Block::find(&self.piece.text, problem.line, &self.object.cedar) {
            Some(block) => {
                let line = block.lines.start.saturating_add(place.line);
                Problem {
                    line,
                    column: block.indent.saturating_add(place.column),
                    snippet: place.snippet(line),
                    ..problem
                }
            }
            // Where no line of the text is one of the file, the text itself is shown.
            None => Problem {
                message: format!(
                    "{}:{} of the text: {}",
                    place.line, place.column, problem.message
                ),
                snippet: place.snippet(place.line),
                ..problem
            },
        }
    }

    /// Where one of its fields stands: file and line.
    pub(super) fn place(&self, field: &str) -> (String, usize) {
        let problem = self.piece.source.problem(field, "");
        (self.piece.source.file.clone(), problem.line)
    }
}

/// Every policy object of the pieces, once each, in their order.
///
/// # Errors
/// With all that is wrong: objects that do not decode, and those of one name.
pub(super) fn gather(pieces: &[Piece]) -> Result<Vec<Written>, Vec<Problem>> {
    let mut all = Vec::new();
    let mut problems = Vec::new();
    let mut seen: BTreeMap<ObjectKey, (String, usize)> = BTreeMap::new();
    for found in pieces.iter().filter_map(Written::of) {
        let written = match found {
            Ok(written) => written,
            Err(wrong) => {
                problems.extend(wrong);
                continue;
            }
        };
        let key = &written.object.key;
        let place = written.place("metadata.name");
        if key.name.is_empty() {
            let problem = written
                .piece
                .source
                .problem("metadata", "has no name: give it one");
            problems.push(problem);
        } else if let Some((file, line)) = seen.insert(key.clone(), place) {
            let message = format!(
                "{} \"{key}\" is given twice, before at {file}:{line}: rename one",
                key.kind()
            );
            let problem = written.piece.source.problem("metadata.name", message);
            problems.push(problem);
        } else {
            all.push(written);
        }
    }
    if problems.is_empty() {
        Ok(all)
    } else {
        Err(problems)
    }
}

/// Looks at each object by itself.
///
/// # Errors
/// With all that keeps policies from taking effect, beside tests that fail.
pub(super) fn examine(loader: &Loader, all: &[Written]) -> Result<Vec<Examined>, Vec<Problem>> {
    let mut examined = Vec::new();
    let mut problems = Vec::new();
    for written in all {
        match loader.examine(&written.object) {
            Ok(good) => examined.push(good),
            Err(wrong) => problems.extend(wrong.iter().map(|p| written.problem(p))),
        }
    }
    if problems.is_empty() {
        Ok(examined)
    } else {
        Err(problems)
    }
}

/// The policy objects of the pieces, each of which takes effect as it stands.
///
/// # Errors
/// With all that is wrong with any, tests that fail among it.
pub(super) fn good(pieces: &[Piece]) -> Result<Vec<Written>, Vec<Problem>> {
    let all = gather(pieces)?;
    let loader = super::loader().map_err(|e| vec![Problem::of_file(e.to_string())])?;
    let examined = examine(&loader, &all)?;
    let failed = all.iter().zip(&examined);
    let failed: Vec<_> = failed.flat_map(|(w, e)| failures(w, e)).collect();
    if failed.is_empty() {
        Ok(all)
    } else {
        Err(failed)
    }
}

/// The tests of an object that fail.
fn failures(written: &Written, examined: &Examined) -> Vec<Problem> {
    let failed = examined.tests.iter().filter_map(|test| {
        let failure = test.failure.as_ref()?;
        let message = format!("the test {:?} fails: {}", test.name, failure.message);
        Some(written.problem(&cedar::Problem {
            message,
            ..failure.clone()
        }))
    });
    failed.collect()
}
