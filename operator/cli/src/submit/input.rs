//! The jobs of files, and all that is wrong with them.

use std::path::{Path, PathBuf};

use trellis_api::TrainingJob;
use trellis_api::document::{self, Problem};

use crate::files::{of_folder, shown, text};
use crate::given::Given;

/// Group and version of a TrainingJob.
const VERSION: &str = "trellis.dev/v1alpha1";

/// The jobs of all files, in their order.
///
/// # Errors
/// With all that is wrong, in all files: whoever submits several wants all or none.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Given>, Vec<Problem>> {
    let mut jobs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match of_folder(path) {
            Ok(None) => file(path, &mut jobs, &mut problems),
            Ok(Some(files)) => files
                .iter()
                .for_each(|path| file(path, &mut jobs, &mut problems)),
            Err(message) => problems.push(Problem::of_file(message).in_file(shown(path))),
        }
    }
    if jobs.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| shown(path)).collect();
        let problem = Problem::of_file("holds no TrainingJob: name a file by -f that does");
        problems.push(problem.in_file(files.join(", ")));
    }
    match problems.is_empty() {
        true => Ok(jobs),
        false => Err(problems),
    }
}

fn file(path: &Path, jobs: &mut Vec<Given>, problems: &mut Vec<Problem>) {
    let file = shown(path);
    let text = match text(path) {
        Ok(text) => text,
        Err(error) => {
            let problem = Problem::of_file(format!("cannot be read: {error}"));
            problems.push(problem.in_file(file));
            return;
        }
    };
    for found in document::read(&text) {
        let document = match found {
            Ok(document) => document,
            Err(problem) => {
                problems.push(problem.in_file(file.as_str()));
                continue;
            }
        };
        if document.kind != "TrainingJob" || document.api_version != VERSION {
            let message = format!(
                "is a {} of {}: TrainingJobs of {VERSION} are submitted; `kubectl apply -f` takes the others, and `trellis import` makes TrainingJobs of other systems' jobs",
                document.kind, document.api_version
            );
            problems.push(document.problem("kind", message).in_file(file.as_str()));
            continue;
        }
        match document.valid::<TrainingJob>() {
            Ok(job) => jobs.push(Given {
                job,
                document,
                file: file.clone(),
            }),
            Err(wrong) => problems.extend(wrong.into_iter().map(|p| p.in_file(file.as_str()))),
        }
    }
}
