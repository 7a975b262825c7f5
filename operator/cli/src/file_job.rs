//! A job of a file.

use std::collections::BTreeMap;

use trellis_api::TrainingJob;
use trellis_api::document::{Document, Problem};

/// A job, and where it is written.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The job.
    pub job: TrainingJob,
    /// What was read.
    pub document: Document,
    /// Its file.
    pub file: String,
}

impl FileJob {
    fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let problem = self.document.problem(field, message);
        problem.with_file(self.file.as_str())
    }
}

/// Gives every job its namespace: its own, else `default`. `asked` is the one that the user
/// insists on.
///
/// # Errors
/// If a job is of another namespace than is asked for, or is there twice.
pub fn assign_namespaces(
    jobs: Vec<FileJob>,
    default: &str,
    asked: Option<&str>,
) -> Result<Vec<TrainingJob>, Vec<Problem>> {
    let mut settled: Vec<TrainingJob> = Vec::new();
    let mut places: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut problems = Vec::new();
    for mut given in jobs {
        let own = given.job.metadata.namespace.take();
        if let (Some(own), Some(asked)) = (&own, asked)
            && own != asked
        {
            let message = format!(
                "is {own:?}, but --namespace asks for {asked:?}: leave one out, or make them the same"
            );
            problems.push(given.problem("metadata.namespace", message));
            continue;
        }
        let namespace = own.unwrap_or_else(|| default.to_owned());
        let problem = given.problem("metadata.name", "");
        let place = format!("{}:{}:{}", given.file, problem.line, problem.column);
        // What the API server names is never the same twice.
        let name = given.job.metadata.name.clone();
        let before = name.and_then(|name| {
            let key = (namespace.clone(), name);
            Some((places.insert(key.clone(), place)?, key))
        });
        if let Some((before, (namespace, name))) = before {
            let message = format!(
                "TrainingJob \"{namespace}/{name}\" is given twice, before at {before}: rename one"
            );
            problems.push(given.problem("metadata.name", message));
            continue;
        }
        given.job.metadata.namespace = Some(namespace);
        settled.push(given.job);
    }
    match problems.is_empty() {
        true => Ok(settled),
        false => Err(problems),
    }
}
