//! `trellis plan --server`: the operator plans the jobs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;
use trellis_api::TrainingJob;
use trellis_api::document::Problem;
use trellis_api::visibility::{PlanSpec, PlanVerdict, PlannedJob};
use trellis_reads::plan::ask_plan;

use super::input::PlanInput;
use super::{PlanOptions, WOULD_WAIT, report};
use crate::cluster::{ClusterClient, USER_AGENT};
use crate::files::job::assign_namespaces;
use crate::output;

/// Plans the jobs. The exit status shows whether all would run.
pub(super) fn run(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    let input = PlanInput::read(&options.filenames, &[]);
    if !input.problems.is_empty() {
        return Ok(output::print_problems(&input.problems));
    }
    let cluster = ClusterClient::connect(&options.cluster, USER_AGENT, None)?;
    let namespace = options.namespace.as_deref();
    let of_context = namespace.unwrap_or(cluster.namespace()).to_owned();
    let jobs = match assign_namespaces(input.jobs, &of_context, namespace) {
        Ok(jobs) => jobs,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    let by_namespace = group_jobs(jobs)?;
    if let Some(problem) = find_large_group(&by_namespace) {
        return Ok(output::print_problems(&[problem]));
    }
    for kind in &input.other_kinds {
        output::warn(&format!(
            "note: {kind} is ignored: the operator plans on the cluster as it is; without --server, it counts as applied"
        ));
    }
    for note in &input.notes {
        output::warn(&format!("note: {note}"));
    }
    if by_namespace.len() > 1 {
        output::warn(
            "note: the jobs of each namespace are planned without those of the other ones",
        );
    }
    let reader = cluster.reader();
    let mut planned: Vec<PlannedJob> = Vec::new();
    for (namespace, jobs) in by_namespace {
        let asked = cluster.block_on(ask_plan(&reader, &namespace, jobs));
        planned.extend(asked.map_err(|error| error.message)?.jobs);
    }
    output::print(&report::render_plan(&planned))?;
    let all_run = planned.iter().all(|job| job.verdict == PlanVerdict::Runs);
    Ok(match all_run {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(WOULD_WAIT),
    })
}

/// Returns the jobs as JSON, by namespace.
fn group_jobs(jobs: Vec<TrainingJob>) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let mut by_namespace: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for job in jobs {
        let namespace = job.metadata.namespace.clone().unwrap_or_default();
        let job = serde_json::to_value(job).context("cannot write the job as JSON")?;
        by_namespace.entry(namespace).or_default().push(job);
    }
    Ok(by_namespace)
}

fn find_large_group(by_namespace: &BTreeMap<String, Vec<Value>>) -> Option<Problem> {
    let mut groups = by_namespace.iter();
    let (namespace, jobs) = groups.find(|(_, jobs)| jobs.len() > PlanSpec::MAX_JOBS)?;
    Some(Problem::for_file(format!(
        "{} jobs of namespace {namespace:?}: the operator plans at most {} at once: give fewer files",
        jobs.len(),
        PlanSpec::MAX_JOBS
    )))
}
