//! Jobs that were read from files.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::TrainingJob;
use trellis_api::document::{Document, Problem};

/// A job, and its position in a file.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The job.
    pub job: TrainingJob,
    /// The document of the job.
    pub document: Document,
    /// The name of the file.
    pub file: String,
}

impl FileJob {
    fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let problem = self.document.problem(field, message);
        problem.with_file(self.file.as_str())
    }
}

/// Sets the namespace of every job: its own, else `default`.
/// `required` is the namespace of `--namespace`.
///
/// # Errors
/// If a job has another namespace than `required`, or two jobs have the same name.
pub fn assign_namespaces(
    jobs: Vec<FileJob>,
    default: &str,
    required: Option<&str>,
) -> Result<Vec<TrainingJob>, Vec<Problem>> {
    let mut settled: Vec<TrainingJob> = Vec::new();
    let mut places: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut problems = Vec::new();
    for mut given in jobs {
        let own = given.job.metadata.namespace.take();
        if let (Some(own), Some(required)) = (&own, required)
            && own != required
        {
            let message = format!(
                "is {own:?}, but --namespace asks for {required:?}: leave one out, or make them the same"
            );
            problems.push(given.problem("metadata.namespace", message));
            continue;
        }
        let namespace = own.unwrap_or_else(|| default.to_owned());
        let problem = given.problem("metadata.name", "");
        let place = format!("{}:{}:{}", given.file, problem.line, problem.column);
        // A job without a name gets a unique name from the API server.
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

/// Returns the namespaces of jobs.
pub fn namespaces_of(jobs: &[TrainingJob]) -> BTreeSet<&str> {
    let named = jobs.iter().map(|j| j.metadata.namespace.as_deref());
    named.flatten().collect()
}
