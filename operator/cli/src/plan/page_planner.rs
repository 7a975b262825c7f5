//! Plans for the web page, in the words of `trellis plan`.

use trellis_dashboard::{PlanAnswer, PlanProblem, PlanSection, PlannedJobAnswer, Planner};
use trellis_plan::{PlannedJob, describe};
use trellis_reads::plan::describe_job;
use trellis_reads::{ReadError, ReadFailure};

use super::input::PlanInput;
use super::reads::cluster_reader::KubeconfigOptions;
use super::{PlanOptions, make_plan};

/// Plans jobs on the cluster of the page, with the rights of its user.
#[derive(Debug)]
pub(crate) struct PagePlanner {
    cluster: KubeconfigOptions,
}

impl PagePlanner {
    pub(crate) fn new(cluster: KubeconfigOptions) -> Self {
        Self { cluster }
    }
}

impl Planner for PagePlanner {
    fn plan(&self, namespace: Option<&str>, yaml: &str) -> Result<PlanAnswer, ReadError> {
        let options = PlanOptions {
            namespace: namespace.map(str::to_owned),
            cluster: self.cluster.clone(),
            ..PlanOptions::default()
        };
        let made = make_plan(&options, PlanInput::parse(yaml)).map_err(into_read_error)?;
        Ok(match made {
            Ok(plan) => PlanAnswer {
                jobs: plan.jobs.iter().map(answer_job).collect(),
                notes: plan.notes,
                problems: Vec::new(),
            },
            Err(problems) => PlanAnswer {
                problems: problems.into_iter().map(answer_problem).collect(),
                ..PlanAnswer::default()
            },
        })
    }
}

/// Keeps the kind of a failed read. All other errors are those of the way to the cluster.
fn into_read_error(error: anyhow::Error) -> ReadError {
    error.downcast().unwrap_or_else(|message| ReadError {
        failure: ReadFailure::Unreachable,
        message,
    })
}

fn answer_job(job: &PlannedJob) -> PlannedJobAnswer {
    let place = job.place.as_ref();
    let nodes = place.map(|place| place.placement.iter().map(|(_, _, node)| node.to_string()));
    let mut nodes: Vec<String> = nodes.into_iter().flatten().collect();
    nodes.sort();
    nodes.dedup();
    let sections = describe_job(&describe(job)).into_iter();
    PlannedJobAnswer {
        namespace: job.key.namespace.to_string(),
        name: job.key.name.to_string(),
        verdict: job.verdict().to_string(),
        runs: job.would_run(),
        reason: place.err().map(|held| held.reason),
        nodes,
        sections: sections
            .map(|row| PlanSection {
                name: row.name,
                lines: row.lines,
            })
            .collect(),
    }
}

fn answer_problem(problem: trellis_api::document::Problem) -> PlanProblem {
    PlanProblem {
        line: problem.line,
        column: problem.column,
        field: problem.field,
        message: problem.message,
        snippet: problem.snippet,
    }
}
