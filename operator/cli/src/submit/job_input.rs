//! Reads the jobs of files, and collects all their problems.

use std::path::PathBuf;

use trellis_api::document::Problem;
use trellis_api::{API_VERSION, TrainingJob};

use crate::files::job::FileJob;
use crate::files::objects::{display_name, read_objects};
use crate::files::source_object::SourceObject;

/// Reads the jobs of all files, in their order.
///
/// # Errors
/// All problems of all files. One problem stops the submission of all jobs.
pub fn read_jobs(paths: &[PathBuf]) -> Result<Vec<FileJob>, Vec<Problem>> {
    let mut jobs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        for found in read_objects(path) {
            match found {
                Ok(source) => add_job(source, &mut jobs, &mut problems),
                Err(problem) => problems.push(problem),
            }
        }
    }
    if jobs.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| display_name(path)).collect();
        let problem = Problem::for_file("contains no TrainingJob: name a file with one by -f");
        problems.push(problem.with_file(files.join(", ")));
    }
    match problems.is_empty() {
        true => Ok(jobs),
        false => Err(problems),
    }
}

fn add_job(source: SourceObject, jobs: &mut Vec<FileJob>, problems: &mut Vec<Problem>) {
    let document = &source.document;
    if !source.is_kind("TrainingJob") {
        let message = format!(
            "is a {} of {}, and only TrainingJobs of {API_VERSION} can be submitted: use `kubectl apply -f` for other objects, and `trellis import` to convert jobs of other systems",
            document.kind, document.api_version
        );
        problems.push(source.problem("kind", message));
        return;
    }
    match document.decode_valid::<TrainingJob>() {
        Ok(job) => jobs.push(FileJob {
            job,
            document: source.document,
            file: source.file,
        }),
        Err(wrong) => problems.extend(source.to_problems(wrong)),
    }
}
