//! Resolves the names of jobs and flavors in expectations.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::document::Problem;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_scheduler::{FlavorName, GangId};
use trellis_simulate::scenario::{JobList, ScenarioExpectations};
use trellis_simulate::{Expectations, ExpectedJobs};

use super::SourcedEvent;

/// Looks up the names of an expectation.
struct Resolver<'a> {
    event: &'a SourcedEvent<'a>,
    jobs: &'a BTreeSet<Key>,
    problems: Vec<Problem>,
}

/// Resolves an expectation to existing jobs and flavors.
///
/// # Errors
/// Names that match no job or flavor, or several jobs.
pub(super) fn resolve_expectation(
    expected: &ScenarioExpectations,
    event: &SourcedEvent<'_>,
    (jobs, known_flavors): (&BTreeSet<Key>, &BTreeSet<String>),
) -> Result<Expectations, Vec<Problem>> {
    let mut resolver = Resolver {
        event,
        jobs,
        problems: Vec::new(),
    };
    let ScenarioExpectations {
        placed,
        pending,
        preempted,
        on,
        running,
        flavors,
        nodes,
    } = expected;
    let set = |names: &Vec<String>| names.iter().cloned().collect();
    let expect = Expectations {
        placed: resolver.resolve_list(placed.as_ref(), "placed"),
        pending: resolver.resolve_list(pending.as_ref(), "pending"),
        preempted: resolver.resolve_list(preempted.as_ref(), "preempted"),
        nodes: resolver.resolve_by_job(on.as_ref(), "on", set),
        running: resolver.resolve_by_job(running.as_ref(), "running", |pods| u64::from(*pods)),
        flavors: resolver.resolve_by_job(flavors.as_ref(), "flavors", set),
        node_counts: resolver.resolve_flavors(nodes.as_ref(), known_flavors),
    };
    if resolver.problems.is_empty() {
        Ok(expect)
    } else {
        Err(resolver.problems)
    }
}

impl Resolver<'_> {
    fn resolve_list(&mut self, jobs: Option<&JobList>, word: &str) -> Option<ExpectedJobs> {
        let jobs = jobs?;
        let part = match jobs {
            JobList::All(_) => "",
            JobList::Count(_) => ".of",
        };
        let mut ids = Vec::new();
        for (number, name) in jobs.names().iter().enumerate() {
            ids.extend(self.find_job(name, &format!("{word}{part}[{number}]")));
        }
        Some(match jobs {
            JobList::All(_) => ExpectedJobs::All(ids),
            JobList::Count(count) => ExpectedJobs::Count {
                minimum: count.exactly.or(count.at_least).unwrap_or(0),
                maximum: count.exactly.or(count.at_most).unwrap_or(usize::MAX),
                jobs: ids,
            },
        })
    }

    fn resolve_by_job<T, R>(
        &mut self,
        jobs: Option<&BTreeMap<String, T>>,
        word: &str,
        read: impl Fn(&T) -> R,
    ) -> BTreeMap<GangId, R> {
        let mut found = BTreeMap::new();
        for (name, expected) in jobs.into_iter().flatten() {
            if let Some(id) = self.find_job(name, &format!("{word}.{name}")) {
                found.insert(id, read(expected));
            }
        }
        found
    }

    fn resolve_flavors(
        &mut self,
        nodes: Option<&BTreeMap<String, u32>>,
        known: &BTreeSet<String>,
    ) -> BTreeMap<FlavorName, usize> {
        let mut counts = BTreeMap::new();
        for (name, count) in nodes.into_iter().flatten() {
            if !known.contains(name) {
                let field = format!("{}.expect.nodes.{name}", self.event.field);
                let message = "is not a ResourceFlavor of these files: correct its name";
                self.problems
                    .push(self.event.source.problem(&field, message));
            }
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            counts.insert(FlavorName::new(name.as_str()), count);
        }
        counts
    }

    fn find_job(&mut self, name: &str, field: &str) -> Option<GangId> {
        match match_name(name, self.jobs) {
            Ok(key) => Some(engine::gang_id(&key)),
            Err(message) => {
                let field = format!("{}.expect.{field}", self.event.field);
                self.problems
                    .push(self.event.source.problem(&field, message));
                None
            }
        }
    }
}

fn match_name(name: &str, jobs: &BTreeSet<Key>) -> Result<Key, String> {
    let fits = |key: &&Key| match name.split_once('/') {
        Some((namespace, name)) => *key.namespace == *namespace && *key.name == *name,
        None => *key.name == *name,
    };
    let mut found = jobs.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(key.clone()),
        (None, _) => Err(format!(
            "{name:?} is not a TrainingJob of these files: correct its name"
        )),
        (Some(_), Some(_)) => Err(format!(
            "{name:?} is the name of several TrainingJobs: write the namespace before it, as in team-a/{name}"
        )),
    }
}
