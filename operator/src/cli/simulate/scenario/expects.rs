//! Jobs by the names that expectations have for them.

use std::collections::BTreeSet;

use trellis_api::document::Problem;

use super::Event;
use crate::key::Key;
use crate::scheduling::gang;
use crate::simulate::Expect;
use crate::simulate::scenario::Expected;

/// What is expected, of jobs that there are.
///
/// # Errors
/// Names that are no job's, or several jobs'.
pub(super) fn resolve(
    expected: &Expected,
    event: &Event<'_>,
    jobs: &BTreeSet<Key>,
) -> Result<Expect, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut list = |names: &Option<Vec<String>>, word: &str| {
        let names = names.as_ref()?;
        let mut ids = Vec::new();
        for (number, name) in names.iter().enumerate() {
            match one(name, jobs) {
                Ok(key) => ids.push(gang::id(&key)),
                Err(message) => {
                    let field = format!("{}.expect.{word}[{number}]", event.field);
                    problems.push(event.source.problem(&field, message));
                }
            }
        }
        Some(ids)
    };
    let expect = Expect {
        placed: list(&expected.placed, "placed"),
        pending: list(&expected.pending, "pending"),
        preempted: list(&expected.preempted, "preempted"),
    };
    if problems.is_empty() {
        Ok(expect)
    } else {
        Err(problems)
    }
}

fn one(name: &str, jobs: &BTreeSet<Key>) -> Result<Key, String> {
    let fits = |key: &&Key| match name.split_once('/') {
        Some((namespace, name)) => *key.namespace == *namespace && *key.name == *name,
        None => *key.name == *name,
    };
    let mut found = jobs.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(key.clone()),
        (None, _) => Err(format!(
            "{name:?} is no TrainingJob of these files: correct its name"
        )),
        (Some(_), Some(_)) => Err(format!(
            "{name:?} is the name of several TrainingJobs: write the namespace before it, as in team-a/{name}"
        )),
    }
}
