//! Plans of jobs that do not exist yet.

use serde::Serialize;
use trellis_api::Reason;
use trellis_reads::ReadError;

/// Plans jobs as `trellis plan` does. It writes nothing.
pub trait Planner: Send + Sync {
    /// Plans the jobs of this text on the cluster. `namespace` is for jobs that name none; None: the
    /// namespace of the context. Blocks the thread.
    ///
    /// # Errors
    /// If the cluster cannot be read. Problems of the text are in the answer.
    fn plan(&self, namespace: Option<&str>, yaml: &str) -> Result<PlanAnswer, ReadError>;
}

/// The plan, or the problems of the text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanAnswer {
    /// The jobs, in the order of the text. Empty: the text has problems.
    pub jobs: Vec<PlannedJobAnswer>,
    /// Facts that the user might not expect.
    pub notes: Vec<String>,
    /// All problems of the text, in its order.
    pub problems: Vec<PlanProblem>,
}

/// A planned job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedJobAnswer {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub name: String,
    /// The verdict in a few words: `would run`, `would wait`, `would be Refused`.
    pub verdict: String,
    /// True if the job would run now.
    pub runs: bool,
    /// Why it would not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Names of the nodes that it would get.
    pub nodes: Vec<String>,
    /// The lines of `trellis plan` about the job.
    pub sections: Vec<PlanSection>,
}

/// Lines about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanSection {
    /// The subject in one word, such as `objects`.
    pub name: &'static str,
    /// The lines, at least one.
    pub lines: Vec<String>,
}

/// A problem of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanProblem {
    /// Line, from 1. 0: the problem concerns the whole text.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the field. Empty: the problem concerns the whole object.
    pub field: String,
    /// The rule and the fix.
    pub message: String,
    /// The line with its number, and a mark below the column.
    pub snippet: String,
}
