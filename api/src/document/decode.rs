//! Decodes a YAML tree into an object, or returns all problems.

use garde::Validate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Problem, Problems};
use super::serde_messages::{self, FieldError};
use super::{Document, stand_in, unknown_fields};
use crate::rules;
use crate::validation::{Violation, Violations};

/// Largest number of unreadable fields that are reported for one object. An object with more is
/// probably of another kind.
const MAX_PROBLEMS: usize = 16;
/// Largest number of attempts to decode an object with stand-ins for unreadable fields.
const MAX_TRIES: usize = 64;

/// Decodes without checking rules.
pub(super) fn decode_lenient<T: DeserializeOwned>(document: &Document) -> Result<T, Problems> {
    decode_value(document.tree.value())
        .map_err(|field_error| field_problem(document, field_error).into())
}

fn decode_value<T: DeserializeOwned>(value: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "" } else { path.as_str() };
        serde_messages::explain_serde_error(&error.inner().to_string(), path)
    })
}

fn field_problem(document: &Document, field_error: FieldError) -> Problem {
    // The problem of an unknown field is its key, not its value.
    let at = if field_error.is_unknown {
        document.tree.key_position_of(&field_error.field)
    } else {
        document.tree.position_of(&field_error.field)
    };
    document.problem_at(at, &field_error.field, field_error.message)
}

/// Decodes, and checks that every field is known and every rule holds.
pub(super) fn decode_valid<T>(document: &Document) -> Result<T, Problems>
where
    T: DeserializeOwned + Serialize + Validate<Context = ()>,
{
    let (object, mut found) = decode_with_stand_ins::<T>(document);
    let Some(object) = object else {
        return Err(sort_problems(found.problems));
    };
    let written = serde_json::to_value(&object).unwrap_or_default();
    for unknown in unknown_fields::find_unknown_fields(&document.tree, &written) {
        if !found.is_reported(&unknown.path) {
            let message = unknown.message.to_owned();
            let problem = document.problem_at(unknown.position, &unknown.path, message);
            found.problems.push(problem);
        }
    }
    if let Err(report) = object.validate() {
        let violations = Violations::from(&report);
        let violations = violations.as_slice().iter();
        // A stand-in value is not the user's. Alone it may break a rule on several fields, so such
        // violations are not reported.
        let meant = |violation: &&Violation| {
            let other = rules::other_field(violation);
            let is_doubtful = found.has_stand_in && rules::is_multi_field(violation)
                || other.is_some_and(|other| found.is_reported(&other));
            !(is_doubtful || found.is_reported(&violation.path))
        };
        let violations: Vec<_> = violations.filter(meant).collect();
        let problems = violations
            .into_iter()
            .map(|v| document.problem(&v.path, v.message.as_str()));
        let problems: Vec<_> = problems.collect();
        found.problems.extend(problems);
    }
    if found.problems.is_empty() {
        Ok(object)
    } else {
        Err(sort_problems(found.problems))
    }
}

/// Problems of an object found so far.
#[derive(Default)]
struct DecodeProblems {
    problems: Vec<Problem>,
    /// Fields of the problems, within the object.
    reported_fields: Vec<String>,
    /// True if a stand-in replaces an unreadable field.
    has_stand_in: bool,
}

impl DecodeProblems {
    /// True if the field, or a field around it, has been reported.
    fn is_reported(&self, field: &str) -> bool {
        self.reported_fields
            .iter()
            .any(|reported| is_in(field, reported))
    }
}

fn is_in(field: &str, outer: &str) -> bool {
    let rest = field.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Decodes with a stand-in for each unreadable field. Returns None if no stand-in is accepted.
fn decode_with_stand_ins<T: DeserializeOwned>(document: &Document) -> (Option<T>, DecodeProblems) {
    let mut found = DecodeProblems::default();
    let mut value = document.tree.value();
    let mut tried = decode_value::<T>(value.clone());
    for _ in 0..MAX_TRIES {
        let field_error = match tried {
            Ok(object) => return (Some(object), found),
            Err(field_error) => field_error,
        };
        let (field, is_unknown) = (field_error.field.clone(), field_error.is_unknown);
        if !found.is_reported(&field) {
            if found.problems.len() >= MAX_PROBLEMS {
                break;
            }
            found.problems.push(field_problem(document, field_error));
            found.reported_fields.push(field.clone());
        }
        found.has_stand_in |= !is_unknown;
        match decode_with_stand_in::<T>(&value, &field) {
            Some((other, outcome)) => (value, tried) = (other, outcome),
            None => break,
        }
    }
    (None, found)
}

/// Returns the value with a stand-in for an unreadable field, and the result of decoding it. The
/// field is then no longer the cause of an error.
fn decode_with_stand_in<T: DeserializeOwned>(
    value: &Value,
    field: &str,
) -> Option<(Value, Result<T, FieldError>)> {
    let removed = std::iter::once(None);
    let others = removed.chain(stand_in::candidates().map(Some));
    others
        .filter_map(|to| {
            let mut other = value.clone();
            let is_changed = match to {
                None => stand_in::remove_field(&mut other, field),
                Some(to) => stand_in::set_field(&mut other, field, to),
            };
            is_changed.then_some(other)
        })
        .find_map(|other| {
            let outcome = decode_value::<T>(other.clone());
            let is_better = outcome
                .as_ref()
                .map_or_else(|field_error| field_error.field != field, |_| true);
            is_better.then_some((other, outcome))
        })
}

fn sort_problems(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|p| (p.line, p.column));
    Problems::from_vec(problems)
}
