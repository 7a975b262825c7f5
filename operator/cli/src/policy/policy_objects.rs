//! The policy objects of files, and their problems with positions.

use std::collections::BTreeMap;

use trellis_api::document::Problem;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_policies::cedar::{self, Examination, ObjectKey, PolicyLoader, PolicyObject};

use super::input_files::ParsedObject;
use super::yaml_block::YamlBlock;
use crate::files::source_object::DEFAULT_NAMESPACE;

/// A policy object, and its position in a file.
pub(super) struct PolicySource {
    pub(super) object: PolicyObject,
    pub(super) source: ParsedObject,
}

impl PolicySource {
    /// Returns the policy object. None: the object is of another kind.
    pub(super) fn from_object(piece: &ParsedObject) -> Option<Result<Self, Vec<Problem>>> {
        let source = &piece.source;
        let object = if source.is_kind("ClusterJobPolicy") {
            let object = source.document.decode_valid::<ClusterJobPolicy>();
            object.map(|object| PolicyObject::from(&object))
        } else if source.is_kind("JobPolicy") {
            let object = source.document.decode_valid::<JobPolicy>();
            object.map(|mut object| {
                let namespace = &mut object.metadata.namespace;
                namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.to_owned());
                PolicyObject::from(&object)
            })
        } else {
            return None;
        };
        let written = object.map(|object| Self {
            object,
            source: piece.clone(),
        });
        Some(written.map_err(|problems| source.to_problems(problems).collect()))
    }

    /// Converts a problem of the object into one with a position in the file.
    pub(super) fn problem(&self, reported: &cedar::PolicyProblem) -> Problem {
        let message = format!("{}: {}", reported.message, reported.fix);
        let problem = self.source.source.problem(&reported.path, message);
        let Some(place) = &reported.position else {
            return problem;
        };
        match YamlBlock::find(&self.source.text, problem.line, &self.object.cedar) {
            Some(block) => {
                let line = block.lines.start.saturating_add(place.line);
                Problem {
                    line,
                    column: block.indent.saturating_add(place.column),
                    snippet: place.snippet(line),
                    ..problem
                }
            }
            // If no line of the text is a line of the file, the message shows the text itself.
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

    /// Returns the file and line of a field.
    pub(super) fn location(&self, field: &str) -> (String, usize) {
        let problem = self.source.source.problem(field, "");
        (self.source.source.file.clone(), problem.line)
    }
}

/// Returns all policy objects, in their order.
///
/// # Errors
/// All problems: objects that do not decode, and objects with the same name.
pub(super) fn collect_policies(pieces: &[ParsedObject]) -> Result<Vec<PolicySource>, Vec<Problem>> {
    let mut all = Vec::new();
    let mut problems = Vec::new();
    let mut positions: BTreeMap<ObjectKey, (String, usize)> = BTreeMap::new();
    for found in pieces.iter().filter_map(PolicySource::from_object) {
        let written = match found {
            Ok(written) => written,
            Err(wrong) => {
                problems.extend(wrong);
                continue;
            }
        };
        let key = &written.object.key;
        let place = written.location("metadata.name");
        if key.name.is_empty() {
            let problem = written
                .source
                .source
                .problem("metadata", "has no name: give it one");
            problems.push(problem);
        } else if let Some((file, line)) = positions.insert(key.clone(), place) {
            let message = format!(
                "{} \"{key}\" is given twice, before at {file}:{line}: rename one",
                key.kind()
            );
            let problem = written.source.source.problem("metadata.name", message);
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

/// Checks each object by itself.
///
/// # Errors
/// All problems that keep policies from taking effect, except failed tests.
pub(super) fn examine_all(
    loader: &PolicyLoader,
    all: &[PolicySource],
) -> Result<Vec<Examination>, Vec<Problem>> {
    let mut examined = Vec::new();
    let mut problems = Vec::new();
    for written in all {
        match loader.examine(&written.object) {
            Ok(good) => examined.push(good),
            Err(found_problems) => {
                problems.extend(found_problems.iter().map(|p| written.problem(p)))
            }
        }
    }
    if problems.is_empty() {
        Ok(examined)
    } else {
        Err(problems)
    }
}

/// Returns the policy objects, if all of them are valid.
///
/// # Errors
/// All problems of the objects, including failed tests.
pub(super) fn load_valid(pieces: &[ParsedObject]) -> Result<Vec<PolicySource>, Vec<Problem>> {
    let all = collect_policies(pieces)?;
    let loader = super::new_loader().map_err(|e| vec![Problem::for_file(e.to_string())])?;
    let examined = examine_all(&loader, &all)?;
    let failed = all.iter().zip(&examined);
    let failed: Vec<_> = failed.flat_map(|(w, e)| test_failures(w, e)).collect();
    if failed.is_empty() {
        Ok(all)
    } else {
        Err(failed)
    }
}

/// Returns the failed tests of an object.
fn test_failures(written: &PolicySource, examined: &Examination) -> Vec<Problem> {
    let failed = examined.tests.iter().filter_map(|test| {
        let failure = test.failure.as_ref()?;
        let message = format!("the test {:?} fails: {}", test.name, failure.message);
        Some(written.problem(&cedar::PolicyProblem {
            message,
            ..failure.clone()
        }))
    });
    failed.collect()
}
