//! Reads the input files of a plan, and collects all their problems.

use std::collections::BTreeSet;
use std::path::PathBuf;

use trellis_api::document::{self, Document, Problem};
use trellis_api::{GROUP, TrainingJob};

use super::snapshot::ClusterSnapshot;
use crate::files::job::FileJob;
use crate::files::objects::{display_name, parse_objects, read_objects};
use crate::files::source_object::TRELLIS_VERSION;

/// The kinds of Trellis.
const OUR_KINDS: [&str; 10] = [
    "TrainingJob",
    "TrainingQueue",
    "ResourceFlavor",
    "Topology",
    "RuntimeProfile",
    "PodGroup",
    "ClusterJobPolicy",
    "JobPolicy",
    "QuotaPolicy",
    "QuotaLedger",
];

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
        input.require_job("name a file with one by -f", &files.join(", "));
        input
    }

    /// Reads the objects of this text, and plans its jobs.
    pub(super) fn parse(text: &str) -> Self {
        let mut input = Self::default();
        for found in parse_objects(text, "") {
            match found {
                Ok(source) => input.add_document(source.document, "", true),
                Err(problem) => input.problems.push(problem),
            }
        }
        input.require_job("write one, such as those in examples/", "");
        input
    }

    /// Adds a problem if the input has no job. `fix` is the advice, and `files` names the files.
    fn require_job(&mut self, fix: &str, files: &str) {
        if !self.jobs.is_empty() || !self.problems.is_empty() {
            return;
        }
        let problem = Problem::for_file(match &self.importable {
            Some(what) => {
                format!("contains no TrainingJob: convert {what} with `trellis import`")
            }
            None => format!("contains no TrainingJob: {fix}"),
        });
        self.problems.push(problem.with_file(files));
    }

    /// Adds an object of a file.
    /// With `to_plan`, a TrainingJob is planned, and a kind that the plan ignores gets a note.
    pub(crate) fn add_document(&mut self, document: Document, file: &str, to_plan: bool) {
        let ours = document.api_version.split('/').next() == Some(GROUP);
        let is_job = document.kind == "TrainingJob" && document.api_version == TRELLIS_VERSION;
        if is_job && to_plan {
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
                self.problems.push(unknown_kind(&document).with_file(file));
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

/// Describes an object with our group or kind that is not one of our kinds.
fn unknown_kind(document: &Document) -> Problem {
    let Document {
        kind, api_version, ..
    } = document;
    if OUR_KINDS.contains(&kind.as_str()) {
        let message = format!("there is no {api_version:?} of {kind}: write {TRELLIS_VERSION}");
        return document.problem("apiVersion", message);
    }
    let known = match document::nearest(kind, &OUR_KINDS) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("its kinds are {}", OUR_KINDS.join(", ")),
    };
    document.problem(
        "kind",
        format!("{TRELLIS_VERSION} has no {kind:?}: {known}"),
    )
}
