//! Reads the jobs of files, and collects all their problems.

use std::path::{Path, PathBuf};

use trellis_api::TrainingJob;
use trellis_api::document::{self, Problem};

use crate::file_job::FileJob;
use crate::object_files::{display_name, list_folder, read_text};

/// Group and version of a TrainingJob.
const JOB_VERSION: &str = "trellis.dev/v1alpha1";

/// Reads the jobs of all files, in their order.
///
/// # Errors
/// All problems of all files. One problem stops the submission of all jobs.
pub fn read_jobs(paths: &[PathBuf]) -> Result<Vec<FileJob>, Vec<Problem>> {
    let mut jobs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match list_folder(path) {
            Ok(None) => read_file(path, &mut jobs, &mut problems),
            Ok(Some(files)) => files
                .iter()
                .for_each(|path| read_file(path, &mut jobs, &mut problems)),
            Err(message) => problems.push(Problem::for_file(message).with_file(display_name(path))),
        }
    }
    if jobs.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| display_name(path)).collect();
        let problem = Problem::for_file("holds no TrainingJob: name a file by -f that does");
        problems.push(problem.with_file(files.join(", ")));
    }
    match problems.is_empty() {
        true => Ok(jobs),
        false => Err(problems),
    }
}

fn read_file(path: &Path, jobs: &mut Vec<FileJob>, problems: &mut Vec<Problem>) {
    let file = display_name(path);
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) => {
            let problem = Problem::for_file(format!("cannot be read: {error}"));
            problems.push(problem.with_file(file));
            return;
        }
    };
    for found in document::read(&text) {
        let document = match found {
            Ok(document) => document,
            Err(problem) => {
                problems.push(problem.with_file(file.as_str()));
                continue;
            }
        };
        if document.kind != "TrainingJob" || document.api_version != JOB_VERSION {
            let message = format!(
                "is a {} of {}: TrainingJobs of {JOB_VERSION} are submitted; `kubectl apply -f` takes the others, and `trellis import` makes TrainingJobs of other systems' jobs",
                document.kind, document.api_version
            );
            problems.push(document.problem("kind", message).with_file(file.as_str()));
            continue;
        }
        match document.decode_valid::<TrainingJob>() {
            Ok(job) => jobs.push(FileJob {
                job,
                document,
                file: file.clone(),
            }),
            Err(wrong) => problems.extend(wrong.into_iter().map(|p| p.with_file(file.as_str()))),
        }
    }
}
