//! Reads the input files of a plan, and collects all their problems.

use std::collections::BTreeSet;
use std::path::PathBuf;

use trellis_api::document::{self, Document, Problem};
use trellis_api::{TrainingJob, kinds};

use super::snapshot::ClusterSnapshot;
use crate::files::job::FileJob;
use crate::files::objects::{display_name, read_objects};

/// The content of the files.
#[derive(Default)]
pub(crate) struct PlanInput {
    /// The jobs to plan, in the order of the files.
    pub(crate) jobs: Vec<FileJob>,
    /// All other objects.
    pub(crate) snapshot: ClusterSnapshot,
    /// Kinds of the other objects.
    pub(crate) other_kinds: BTreeSet<String>,
    /// All problems, in the order of the files.
    pub(crate) problems: Vec<Problem>,
    /// Notes about facts that the user might not expect.
    pub(crate) notes: Vec<String>,
    /// The first job in the job files that `trellis import` can convert.
    pub(crate) importable: Option<String>,
}

impl PlanInput {
    /// Reads all files, even if some have problems.
    /// TrainingJobs of `cluster` exist already; TrainingJobs of `files` are planned.
    pub(super) fn read(files: &[PathBuf], cluster: &[PathBuf]) -> Self {
        let mut input = Self::default();
        for (paths, to_plan) in [(cluster, false), (files, true)] {
            for path in paths {
                for found in read_objects(path) {
                    match found {
                        Ok(source) => input.add_document(source.document, &source.file, to_plan),
                        Err(problem) => input.problems.push(problem),
                    }
                }
            }
        }
        let files: Vec<_> = files.iter().map(|f| display_name(f)).collect();
        input.require_job(&files.join(", "));
        input
    }

    /// Adds a problem if these files have no job.
    fn require_job(&mut self, files: &str) {
        if !self.jobs.is_empty() || !self.problems.is_empty() {
            return;
        }
        let problem = Problem::for_file(match &self.importable {
            Some(what) => {
                format!("contains no TrainingJob: convert {what} with `trellis import`")
            }
            None => "contains no TrainingJob: name a file with one by -f".to_owned(),
        });
        self.problems.push(problem.with_file(files));
    }

    /// Adds an object of a file.
    /// With `to_plan`, a TrainingJob is planned, and a kind that the plan ignores gets a note.
    pub(crate) fn add_document(&mut self, document: Document, file: &str, to_plan: bool) {
        let ours = kinds::has_our_group(&document);
        if to_plan && kinds::is_job(&document) {
            match document.decode_valid::<TrainingJob>() {
                Ok(mut job) => self.jobs.push(FileJob {
                    job: {
                        job.metadata.name = job.likely_name();
                        job
                    },
                    document,
                    file: file.to_owned(),
                }),
                Err(problems) => self.add_problems(problems, file),
            }
            return;
        }
        match self.snapshot.add_document(&document) {
            Ok(Some(_)) => {
                self.other_kinds.insert(document.kind);
            }
            Ok(None) if ours || (to_plan && document.kind == "TrainingJob") => {
                let problem = kinds::unknown_kind(&document);
                self.problems.push(problem.with_file(file));
            }
            Ok(None) => {
                note_unread(&mut self.notes, &document, file, to_plan);
                if to_plan && self.importable.is_none() && trellis_import::becomes_job(&document) {
                    self.importable = importable_kind(&document);
                }
            }
            Err(problems) => self.add_problems(problems, file),
        }
    }

    fn add_problems(&mut self, problems: document::Problems, file: &str) {
        let problems = problems.into_iter().map(|p| p.with_file(file));
        self.problems.extend(problems);
    }
}

/// Returns kind and version of an object that `trellis import` can convert.
fn importable_kind(document: &Document) -> Option<String> {
    let Document {
        kind, api_version, ..
    } = document;
    trellis_import::is_importable(document).then(|| format!("{kind} of {api_version}"))
}

/// Adds a note for an object that neither plans nor simulations read.
/// Each kind of a file gets one note. In a dump of a cluster, only an object with an equivalent in
/// Trellis gets a note. The dump may contain any other kind.
pub(crate) fn note_unread(
    notes: &mut Vec<String>,
    document: &Document,
    file: &str,
    in_file_of_jobs: bool,
) {
    let note = match importable_kind(document) {
        Some(what) => format!("{file}: {what} is ignored: convert it with `trellis import`"),
        None if in_file_of_jobs => format!("{file}: {} is ignored", document.kind),
        None => return,
    };
    if !notes.contains(&note) {
        notes.push(note);
    }
}
