//! The jobs of a text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trellis_api::document::{self, Document, Problem};
use trellis_api::visibility::PlanSpec;
use trellis_api::{TrainingJob, kinds};

/// Most namespaces of one text. Each is a question to the operator.
const MAX_NAMESPACES: usize = 8;

/// The jobs of a text without problems.
#[derive(Debug, PartialEq)]
pub(crate) struct PlanText {
    /// The jobs by namespace, in the order of the text.
    pub(super) groups: Vec<NamespaceJobs>,
    /// Facts that the user might not expect.
    pub(super) notes: Vec<String>,
}

/// The jobs of one namespace.
#[derive(Debug, PartialEq)]
pub(super) struct NamespaceJobs {
    pub(super) namespace: String,
    /// Each job with its place among all jobs of the text.
    pub(super) jobs: Vec<(usize, Value)>,
}

impl PlanText {
    /// Reads a text. `namespace` is for jobs that name none; None: each job must name one.
    ///
    /// # Errors
    /// All problems of the text, in its order.
    pub(crate) fn read(text: &str, namespace: Option<&str>) -> Result<Self, Vec<Problem>> {
        let mut read = TextReader {
            namespace,
            ..TextReader::default()
        };
        for found in document::read(text) {
            match found {
                Ok(document) => read.add_document(&document),
                Err(problem) => read.problems.push(problem),
            }
        }
        read.finish()
    }
}

#[derive(Default)]
struct TextReader<'a> {
    /// Namespace of jobs that name none.
    namespace: Option<&'a str>,
    groups: Vec<NamespaceJobs>,
    /// Number of jobs that are read.
    count: usize,
    /// The line of each job, by namespace and name.
    lines: BTreeMap<(String, String), usize>,
    notes: Vec<String>,
    problems: Vec<Problem>,
    /// The kinds that have a note.
    ignored: BTreeSet<String>,
    /// The first job that `trellis import` can convert.
    importable: Option<String>,
    /// The first job that names no namespace.
    without_namespace: Option<String>,
}

impl TextReader<'_> {
    fn add_document(&mut self, document: &Document) {
        let is_known = kinds::is_known(document);
        if kinds::is_job(document) {
            match document.decode_valid::<TrainingJob>() {
                Ok(job) => {
                    if let Err(problem) = self.add_job(document, job) {
                        self.problems.push(problem);
                    }
                }
                Err(problems) => self.problems.extend(problems),
            }
        } else if !is_known && (kinds::has_our_group(document) || document.kind == "TrainingJob") {
            self.problems.push(kinds::unknown_kind(document));
        } else {
            self.note_ignored(document);
        }
    }

    fn add_job(&mut self, document: &Document, mut job: TrainingJob) -> Result<(), Problem> {
        // The operator, too, plans a job without a name under this one.
        let name = job.likely_name().unwrap_or_default();
        let own = job.metadata.namespace.take();
        if own.is_none() && self.without_namespace.is_none() {
            self.without_namespace = Some(name.clone());
        }
        let namespace = own.or_else(|| self.namespace.map(str::to_owned));
        let Some(namespace) = namespace else {
            let message = "is missing, and the page has no context that gives one: add it, or fill in the namespace of jobs that name none";
            return Err(document.problem("metadata.namespace", message));
        };
        job.metadata.namespace = Some(namespace.clone());
        let place = document.problem("metadata.name", "");
        let key = (namespace.clone(), name);
        if let Some(before) = self.lines.get(&key) {
            let message = format!(
                "TrainingJob \"{}/{}\" is given twice, before at line {before}: rename one",
                key.0, key.1
            );
            return Err(document.problem("metadata.name", message));
        }
        self.lines.insert(key, place.line);
        let job = serde_json::to_value(&job)
            .map_err(|error| document.problem("", format!("cannot be sent: {error}")))?;
        self.add_to_group(document, namespace, job)
    }

    fn add_to_group(
        &mut self,
        document: &Document,
        namespace: String,
        job: Value,
    ) -> Result<(), Problem> {
        let place = self.count;
        self.count = self.count.saturating_add(1);
        let mut groups = self.groups.iter_mut();
        let Some(group) = groups.find(|group| group.namespace == namespace) else {
            let count = self.groups.len();
            self.groups.push(NamespaceJobs {
                namespace,
                jobs: vec![(place, job)],
            });
            // One problem is enough, also if more namespaces follow.
            return match count == MAX_NAMESPACES {
                true => Err(document.problem(
                    "metadata.namespace",
                    format!("is namespace {} of the text: a plan has at most {MAX_NAMESPACES}, so plan the rest apart", MAX_NAMESPACES.saturating_add(1)),
                )),
                false => Ok(()),
            };
        };
        group.jobs.push((place, job));
        match group.jobs.len() == PlanSpec::MAX_JOBS.saturating_add(1) {
            true => Err(document.problem(
                "",
                format!(
                    "is job {} of namespace {:?}: a plan has at most {} jobs of a namespace, so plan the rest apart",
                    group.jobs.len(),
                    group.namespace,
                    PlanSpec::MAX_JOBS
                ),
            )),
            false => Ok(()),
        }
    }

    /// Adds a note for an object that the operator does not plan. Each kind gets one.
    fn note_ignored(&mut self, document: &Document) {
        let kind = &document.kind;
        let is_importable = trellis_import::is_importable(document);
        let title = match is_importable {
            true => format!("{kind} of {}", document.api_version),
            false => kind.clone(),
        };
        if self.importable.is_none() && trellis_import::becomes_job(document) {
            self.importable = Some(title.clone());
        }
        let fix = match is_importable {
            true => "convert it with `trellis import`",
            false => "the page plans TrainingJobs; with other objects, use `trellis plan`",
        };
        let line = document.problem("", "").line;
        let note = format!("line {line}: {title} is ignored: {fix}");
        if self.ignored.insert(title) {
            self.notes.push(note);
        }
    }

    fn finish(mut self) -> Result<PlanText, Vec<Problem>> {
        if self.groups.is_empty() && self.problems.is_empty() {
            let fix = match &self.importable {
                Some(job) => format!("convert {job} with `trellis import`"),
                None => "write one, such as those in examples/".to_owned(),
            };
            let message = format!("contains no TrainingJob: {fix}");
            self.problems.push(Problem::for_file(message));
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        if self.groups.len() > 1 {
            let note = "jobs of different namespaces are planned apart: each plan is made as if the jobs of the other namespaces were not submitted";
            self.notes.push(note.to_owned());
            // One option -n cannot serve all of them.
            self.notes.extend(self.without_namespace.map(|job| {
                format!("TrainingJob {job:?} names no namespace: add metadata.namespace before you submit the text")
            }));
        }
        Ok(PlanText {
            groups: self.groups,
            notes: self.notes,
        })
    }
}

#[cfg(test)]
mod tests;
