//! Plans of jobs that do not exist yet.
//!
//! `text` reads the jobs that a user has written. The operator plans them.

mod text;

use std::collections::BTreeSet;

use serde::Serialize;
use trellis_api::Reason;
use trellis_api::document::Problem;
use trellis_api::visibility::{PlanVerdict, PlannedJob};
use trellis_reads::Reader;
use trellis_reads::plan::{PlanRow, ask_plan, describe_job};

use crate::answer::Refusal;
pub(crate) use text::PlanText;

/// The plan, or the problems of the text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PlanAnswer {
    /// The jobs, in the order of the text. Empty: the text has problems.
    jobs: Vec<PlannedJobAnswer>,
    /// Facts that the user might not expect.
    notes: Vec<String>,
    /// All problems of the text, in its order.
    problems: Vec<PlanProblem>,
}

/// A planned job.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct PlannedJobAnswer {
    /// Namespace of the job.
    namespace: String,
    /// Name of the job.
    name: String,
    /// The verdict in a few words: `would run`, `would wait`, `would be Refused`.
    verdict: String,
    /// True if the job would run now.
    runs: bool,
    /// Why it would not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Names of the nodes that it would get. Empty: it would get none, or the user may not read
    /// nodes.
    nodes: BTreeSet<String>,
    /// The lines of `trellis plan` about the job.
    sections: Vec<PlanRow>,
}

/// A problem of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlanProblem {
    /// Line, from 1. 0: the problem concerns the whole text.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
    /// Path of the field. Empty: the problem concerns the whole object.
    field: String,
    /// The rule and the fix.
    message: String,
    /// The line with its number, and a mark below the column.
    snippet: String,
}

impl PlanAnswer {
    /// The answer to a text with these problems.
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Self {
        Self {
            problems: problems.into_iter().map(PlanProblem::from).collect(),
            ..Self::default()
        }
    }

    /// Asks the operator what would become of the jobs, one namespace after the other: the operator
    /// answers one question of a user at a time.
    pub(crate) async fn ask(reader: &Reader, text: PlanText) -> Result<Self, Refusal> {
        let mut planned = Vec::new();
        for group in text.groups {
            let count = group.jobs.len();
            let (places, jobs): (Vec<usize>, Vec<_>) = group.jobs.into_iter().unzip();
            let answer = ask_plan(reader, &group.namespace, jobs).await?;
            if answer.jobs.len() != count {
                return Err(Refusal::internal(format!(
                    "the operator has planned {} of {count} jobs",
                    answer.jobs.len()
                )));
            }
            planned.extend(places.into_iter().zip(answer.jobs));
        }
        planned.sort_by_key(|(place, _)| *place);
        let jobs = planned.into_iter();
        Ok(Self {
            jobs: jobs.map(|(_, job)| PlannedJobAnswer::from(job)).collect(),
            notes: text.notes,
            problems: Vec::new(),
        })
    }
}

impl From<PlannedJob> for PlannedJobAnswer {
    fn from(job: PlannedJob) -> Self {
        let sections = describe_job(&job);
        let places = job.task_groups.into_iter().flat_map(|group| group.nodes);
        Self {
            namespace: job.job.namespace,
            name: job.job.name,
            verdict: job.verdict.to_string(),
            runs: job.verdict == PlanVerdict::Runs,
            reason: job.reason,
            nodes: places.map(|place| place.node).collect(),
            sections,
        }
    }
}

impl From<Problem> for PlanProblem {
    fn from(problem: Problem) -> Self {
        Self {
            line: problem.line,
            column: problem.column,
            field: problem.field,
            message: problem.message,
            snippet: problem.snippet,
        }
    }
}
