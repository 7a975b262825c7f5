//! The files that a plan is made from, and everything that is wrong with them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use trellis_api::document::{self, Document, Problem};
use trellis_api::{GROUP, TrainingJob};

use super::snapshot::Snapshot;
use crate::cli::source::OUR_VERSION;
use crate::key::Key;

/// Our kinds.
const KINDS: [&str; 9] = [
    "TrainingJob",
    "Queue",
    "ResourceFlavor",
    "Topology",
    "RuntimeProfile",
    "PodGroup",
    "ClusterAuthorizationPolicy",
    "AuthorizationPolicy",
    "QuotaPolicy",
];

/// A job that is to be planned, and where it is written.
pub(in crate::cli) struct Given {
    job: TrainingJob,
    document: Document,
    file: String,
}

/// What the files hold.
#[derive(Default)]
pub(in crate::cli) struct Input {
    /// The jobs to plan, in the order of the files.
    pub(in crate::cli) jobs: Vec<Given>,
    /// What else there is.
    pub(in crate::cli) snapshot: Snapshot,
    /// Everything that is wrong, in the order of the files.
    pub(in crate::cli) problems: Vec<Problem>,
    /// What the user might not expect.
    pub(in crate::cli) notes: Vec<String>,
}

impl Input {
    /// Reads all files, whatever is wrong with some. TrainingJobs of `cluster`
    /// are there already; those of `files` are to be planned.
    pub(super) fn read(files: &[PathBuf], cluster: &[PathBuf]) -> Self {
        let mut input = Self::default();
        for (paths, to_plan) in [(cluster, false), (files, true)] {
            for path in paths {
                match of_folder(path) {
                    Ok(None) => input.file(path, to_plan),
                    Ok(Some(files)) => files.iter().for_each(|f| input.file(f, to_plan)),
                    Err(message) => {
                        let problem = Problem::of_file(message).in_file(shown(path));
                        input.problems.push(problem);
                    }
                }
            }
        }
        if input.jobs.is_empty() && input.problems.is_empty() {
            let files: Vec<_> = files.iter().map(|f| shown(f)).collect();
            let message = "holds no TrainingJob: name a file by -f that does";
            let problem = Problem::of_file(message).in_file(files.join(", "));
            input.problems.push(problem);
        }
        input
    }

    fn file(&mut self, path: &Path, to_plan: bool) {
        let file = shown(path);
        let text = match text(path) {
            Ok(text) => text,
            Err(error) => {
                let problem = Problem::of_file(format!("cannot be read: {error}"));
                self.problems.push(problem.in_file(file));
                return;
            }
        };
        for found in document::read(&text) {
            match found {
                Ok(document) => self.document(document, &file, to_plan),
                Err(problem) => self.problems.push(problem.in_file(file.as_str())),
            }
        }
    }

    /// Takes an object of a file. Of those that are `to_plan` a TrainingJob is one
    /// to plan, and a kind that nobody looks at is worth a note.
    pub(in crate::cli) fn document(&mut self, document: Document, file: &str, to_plan: bool) {
        let ours = document.api_version.split('/').next() == Some(GROUP);
        let is_job = document.kind == "TrainingJob" && document.api_version == OUR_VERSION;
        if is_job && to_plan {
            match document.valid::<TrainingJob>() {
                Ok(job) => self.jobs.push(Given {
                    job,
                    document,
                    file: file.to_owned(),
                }),
                Err(problems) => self.wrong(problems, file),
            }
            return;
        }
        match self.snapshot.take(&document) {
            Ok(true) => {}
            Ok(false) if ours || (to_plan && document.kind == "TrainingJob") => {
                self.problems.push(no_kind(&document).in_file(file));
            }
            Ok(false) if to_plan => {
                let kind = &document.kind;
                self.notes.push(format!("{file}: {kind} is not looked at"));
            }
            // A dump of a cluster holds what it holds.
            Ok(false) => {}
            Err(problems) => self.wrong(problems, file),
        }
    }

    fn wrong(&mut self, problems: document::Problems, file: &str) {
        let problems = problems.into_iter().map(|p| p.in_file(file));
        self.problems.extend(problems);
    }
}

/// What is wrong with an object that is ours by its group or its kind, and none
/// of ours.
fn no_kind(document: &Document) -> Problem {
    let Document {
        kind, api_version, ..
    } = document;
    if KINDS.contains(&kind.as_str()) {
        let message = format!("there is no {api_version:?} of {kind}: write {OUR_VERSION}");
        return document.problem("apiVersion", message);
    }
    let known = match document::nearest(kind, &KINDS) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("its kinds are {}", KINDS.join(", ")),
    };
    document.problem("kind", format!("{OUR_VERSION} has no {kind:?}: {known}"))
}

/// The files of a folder that kubectl would read, by name. None: it is no folder.
fn of_folder(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    if !path.is_dir() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            let extension = file.extension().and_then(|e| e.to_str());
            matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file()
        })
        .collect();
    files.sort_unstable();
    if files.is_empty() {
        return Err(
            "is a folder without .yaml, .yml and .json files: name one that has some".to_owned(),
        );
    }
    Ok(Some(files))
}

/// Gives every job its namespace: its own, else `default`. `asked` is the one
/// that the user insists on.
///
/// # Errors
/// If a job is of another namespace than is asked for, or is there twice.
pub(in crate::cli) fn settle(
    jobs: Vec<Given>,
    default: &str,
    asked: Option<&str>,
) -> Result<Vec<TrainingJob>, Vec<Problem>> {
    let mut settled: Vec<TrainingJob> = Vec::new();
    let mut places: BTreeMap<Key, String> = BTreeMap::new();
    let mut problems = Vec::new();
    for given in jobs {
        let mut job = given.job;
        let own = job.metadata.namespace.take();
        if let (Some(own), Some(asked)) = (&own, asked)
            && own != asked
        {
            let message = format!(
                "is {own:?}, but --namespace asks for {asked:?}: leave one out, or make them the same"
            );
            let problem = given.document.problem("metadata.namespace", message);
            problems.push(problem.in_file(given.file.as_str()));
            continue;
        }
        job.metadata.namespace = Some(own.unwrap_or_else(|| default.to_owned()));
        let key = Key::of(&job.metadata);
        let problem = given.document.problem("metadata.name", "");
        let place = format!("{}:{}:{}", given.file, problem.line, problem.column);
        if let Some(before) = places.insert(key.clone(), place) {
            let message =
                format!("TrainingJob \"{key}\" is given twice, before at {before}: rename one");
            let problem = given.document.problem("metadata.name", message);
            problems.push(problem.in_file(given.file.as_str()));
            continue;
        }
        settled.push(job);
    }
    if problems.is_empty() {
        Ok(settled)
    } else {
        Err(problems)
    }
}

/// The text of a file; `-` is standard input.
pub(in crate::cli) fn text(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    // One more than is taken, so that a larger file is seen to be one.
    let most = u64::try_from(document::MAX_FILE)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?
            .take(most)
            .read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes)
        .map_err(|_| std::io::Error::other("it is no text in UTF-8: save it as UTF-8"))
}

/// The name of a file as messages bear it.
pub(in crate::cli) fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    }
}
