//! From a tree to an object, or to everything that is wrong with it.

use garde::Validate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Problem, Problems};
use super::words::{self, Said};
use super::{Document, strict};
use crate::validate::Violations;

/// Unknown fields that are told of one object: whoever has more has another kind.
const MOST_UNKNOWN: usize = 16;

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
    let mut problems = Vec::new();
    let mut value = document.tree.value();
    let object: T = loop {
        match object(value.clone()) {
            Ok(object) => break object,
            Err(said) => {
                // Without the unknown field, what else is wrong comes to light.
                let again = said.is_unknown
                    && problems.len() < MOST_UNKNOWN
                    && remove(&mut value, &said.field);
                problems.push(problem(document, said));
                if !again {
                    return Err(in_order(problems));
                }
            }
        }
    };
    let told: Vec<String> = problems.iter().map(|p| p.field.clone()).collect();
    let written = serde_json::to_value(&object).unwrap_or_default();
    for unknown in strict::unknown(&document.tree, &written) {
        let message = unknown.message.to_owned();
        let problem = document.problem_at(unknown.at, &unknown.path, message);
        if !told.contains(&problem.field) {
            problems.push(problem);
        }
    }
    if let Err(report) = object.validate() {
        let violations = Violations::from(&report);
        let found = violations.as_slice().iter();
        problems.extend(found.map(|v| document.problem(&v.path, v.message.as_str())));
    }
    if problems.is_empty() {
        Ok(object)
    } else {
        Err(in_order(problems))
    }
}

fn in_order(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|p| (p.line, p.column));
    Problems::all(problems)
}

/// Removes the field of a path such as `spec.taskGroups[0].replcas`. False if it
/// is not there.
fn remove(value: &mut Value, path: &str) -> bool {
    let path = path.strip_prefix('.').unwrap_or(path);
    match value {
        Value::Object(map) => {
            if map.remove(path).is_some() {
                return true;
            }
            // Keys may have dots in them: the longest that fits is meant.
            let fits = |key: &&String| {
                let rest = path.strip_prefix(key.as_str());
                rest.is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            let Some(key) = map.keys().filter(fits).max_by_key(|k| k.len()).cloned() else {
                return false;
            };
            let rest = path.strip_prefix(key.as_str()).unwrap_or_default();
            map.get_mut(&key).is_some_and(|value| remove(value, rest))
        }
        Value::Array(items) => {
            let index = path.strip_prefix('[').and_then(|p| p.split_once(']'));
            index.is_some_and(|(index, rest)| {
                let item = index.parse::<usize>().ok().and_then(|i| items.get_mut(i));
                item.is_some_and(|item| remove(item, rest))
            })
        }
        _ => false,
    }
}
