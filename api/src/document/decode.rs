//! From a tree to an object, or to everything that is wrong with it.

use garde::Validate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Problem, Problems};
use super::words::{self, Said};
use super::{Document, stand_in, strict};
use crate::rules;
use crate::validate::{Violation, Violations};

/// Fields that cannot be read and are told of one object: whoever has more has
/// another kind.
const MOST: usize = 16;
/// Times that an object is decoded with another field in the place of one.
const MOST_TRIES: usize = 64;

/// Decodes, and knows of no rule.
pub(super) fn lenient<T: DeserializeOwned>(document: &Document) -> Result<T, Problems> {
    object(document.tree.value()).map_err(|said| problem(document, said).into())
}

fn object<T: DeserializeOwned>(value: Value) -> Result<T, Said> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "" } else { path.as_str() };
        words::of(&error.inner().to_string(), path)
    })
}

fn problem(document: &Document, said: Said) -> Problem {
    // What is unknown is the key, not what it says.
    let at = if said.is_unknown {
        document.tree.find_key(&said.field)
    } else {
        document.tree.find(&said.field)
    };
    document.problem_at(at, &said.field, said.message)
}

/// Decodes, and checks that every field is known and every rule holds.
pub(super) fn valid<T>(document: &Document) -> Result<T, Problems>
where
    T: DeserializeOwned + Serialize + Validate<Context = ()>,
{
    let (object, mut found) = all_that_decodes::<T>(document);
    let Some(object) = object else {
        return Err(in_order(found.problems));
    };
    let written = serde_json::to_value(&object).unwrap_or_default();
    for unknown in strict::unknown(&document.tree, &written) {
        if !found.is_told(&unknown.path) {
            let message = unknown.message.to_owned();
            let problem = document.problem_at(unknown.at, &unknown.path, message);
            found.problems.push(problem);
        }
    }
    if let Err(report) = object.validate() {
        let violations = Violations::from(&report);
        let violations = violations.as_slice().iter();
        // What stands in for a field is nobody's word, and a rule on several
        // fields may be broken by it alone.
        let meant = |violation: &&Violation| {
            let other = rules::other_field(violation);
            let is_doubtful = found.stood_in && rules::is_on_several(violation)
                || other.is_some_and(|other| found.is_told(&other));
            !(is_doubtful || found.is_told(&violation.path))
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
        Err(in_order(found.problems))
    }
}

/// What is wrong with an object so far.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    /// The fields of the problems, within the object.
    told: Vec<String>,
    /// Something stands in for a field that cannot be read.
    stood_in: bool,
}

impl Found {
    /// True of a field that is told, and of all in it.
    fn is_told(&self, field: &str) -> bool {
        self.told.iter().any(|told| is_in(field, told))
    }
}

fn is_in(field: &str, outer: &str) -> bool {
    let rest = field.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Decodes, with something else in the place of each field that cannot be read.
/// None: nothing would do.
fn all_that_decodes<T: DeserializeOwned>(document: &Document) -> (Option<T>, Found) {
    let mut found = Found::default();
    let mut value = document.tree.value();
    let mut tried = object::<T>(value.clone());
    for _ in 0..MOST_TRIES {
        let said = match tried {
            Ok(object) => return (Some(object), found),
            Err(said) => said,
        };
        let (field, is_unknown) = (said.field.clone(), said.is_unknown);
        if !found.is_told(&field) {
            if found.problems.len() >= MOST {
                break;
            }
            found.problems.push(problem(document, said));
            found.told.push(field.clone());
        }
        found.stood_in |= !is_unknown;
        match without::<T>(&value, &field) {
            Some((other, outcome)) => (value, tried) = (other, outcome),
            None => break,
        }
    }
    (None, found)
}

/// The value with another field in the place of one that cannot be read, and what
/// comes of it: the field is no longer what is wrong.
fn without<T: DeserializeOwned>(value: &Value, field: &str) -> Option<(Value, Result<T, Said>)> {
    let removed = std::iter::once(None);
    let others = removed.chain(stand_in::candidates().map(Some));
    others
        .filter_map(|to| {
            let mut other = value.clone();
            let is_changed = match to {
                None => stand_in::remove(&mut other, field),
                Some(to) => stand_in::set(&mut other, field, to),
            };
            is_changed.then_some(other)
        })
        .find_map(|other| {
            let outcome = object::<T>(other.clone());
            let is_better = outcome
                .as_ref()
                .map_or_else(|said| said.field != field, |_| true);
            is_better.then_some((other, outcome))
        })
}

fn in_order(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|p| (p.line, p.column));
    Problems::all(problems)
}
