//! `trellis policy eval`: shows all requests of jobs, and the decisions about them.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use trellis_api::document::Problem;
use trellis_api::{TrainingJob, rules};
use trellis_gang::key::Key;

use super::decisions::{DecidedJob, DecisionOutcome, DemandRow, JobToDecide};
use super::input_files::ParsedFiles;
use super::{PolicyOutputFormat, decision_notes, policy_objects, test};
use crate::files::job::{FileJob, assign_namespaces};
use crate::output;
use crate::plan::input::PlanInput;
use crate::plan::notes::unlabelled_namespaces;
use crate::plan::reads::cluster_reader::{ClusterReader, KubeconfigOptions, ReadPurpose};
use crate::plan::snapshot::ClusterSnapshot;
use crate::requester_options::RequesterOptions;

/// Options of `trellis policy eval`.
#[derive(clap::Args, Debug)]
pub(super) struct EvalOptions {
    /// Files with `TrainingJobs` and policies; - is standard input.
    /// Folders are read with all their subfolders. The files may also contain `TrainingQueues`,
    /// Namespaces, `PriorityClasses` and Services.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    #[command(flatten)]
    requester: RequesterOptions,
    /// Decide as if the files were applied to the current cluster.
    #[arg(long)]
    cluster: bool,
    /// Namespace of jobs that name none.
    /// Default: `default`; with --cluster, the namespace of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format. Default: text for a terminal.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
    #[command(flatten)]
    access: KubeconfigOptions,
}

/// The decisions about all jobs.
#[derive(Serialize)]
struct EvalReport {
    /// Hash of the policies.
    set: String,
    jobs: Vec<DecidedJob>,
}

/// Evaluates the policies. The exit status shows whether all jobs may run.
pub(super) fn run(options: &EvalOptions) -> anyhow::Result<ExitCode> {
    let files = ParsedFiles::read(&options.filenames);
    let mut input = match EvalInput::from_files(files, options.namespace.as_deref()) {
        Ok(input) => input,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    if !options.cluster && options.access.is_set() {
        return Ok(output::print_problems(&[needs_cluster_problem()]));
    }
    let jobs = if options.cluster {
        let cluster = ClusterReader::connect(&options.access, ReadPurpose::Policies)?;
        let jobs = match input.assign_namespaces(cluster.namespace(), options.namespace.as_deref())
        {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::print_problems(&problems)),
        };
        let mut contents = cluster.read_facts(&jobs)?;
        cluster
            .get_jobs(&jobs)?
            .into_iter()
            .for_each(|job| contents.snapshot.add(job));
        contents.snapshot.overlay(input.facts);
        input.facts = contents.snapshot;
        input.notes.extend(contents.notes);
        jobs
    } else {
        let jobs = match input.assign_namespaces("default", options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::print_problems(&problems)),
        };
        input
            .notes
            .extend(unlabelled_namespaces::note_unlabelled(&jobs, &input.facts));
        jobs
    };
    let EvalInput {
        mut facts, notes, ..
    } = input;
    for note in &notes {
        output::warn(&format!("note: {note}"));
    }
    if facts.policies.is_unset() {
        output::warn("note: no policy is given: the starter set decides");
    }
    facts.queues_or_default();
    for problem in facts.policies.load() {
        output::warn(&format!("note: {problem}"));
    }
    let Some(policies) = facts.policies.loaded() else {
        anyhow::bail!("the policies cannot be loaded");
    };
    let requester = options.requester.requester();
    let decide = |job: &TrainingJob| {
        let to_decide = JobToDecide {
            job,
            in_cluster: facts.jobs.get(&Key::from_meta(&job.metadata)),
            requester: requester.as_ref(),
        };
        to_decide.decide(policies, &facts)
    };
    let report = EvalReport {
        set: policies.hash().to_owned(),
        jobs: jobs.iter().map(decide).collect(),
    };
    for note in decision_notes::note_jobs(facts.policies.objects(), &report.jobs) {
        output::warn(&format!("note: {note}"));
    }
    match options.output {
        None => output::print(&render_jobs(&report.jobs))?,
        Some(PolicyOutputFormat::Json) => super::print_json(&report)?,
    }
    let all = report
        .jobs
        .iter()
        .all(|j| j.decision == DecisionOutcome::Allowed);
    Ok(super::to_exit_code(all))
}

/// The problem of cluster options without --cluster.
pub(super) fn needs_cluster_problem() -> Problem {
    Problem::for_file(
        "--kubeconfig and --context select a cluster, and no cluster is read: add --cluster",
    )
}

/// Jobs and facts that were read from files.
pub(super) struct EvalInput {
    jobs: Vec<FileJob>,
    pub(super) facts: ClusterSnapshot,
    pub(super) notes: Vec<String>,
}

impl EvalInput {
    /// Takes the content of files.
    /// All policies must be valid, and files of tests are ignored.
    pub(super) fn from_files(
        files: ParsedFiles,
        namespace: Option<&str>,
    ) -> Result<Self, Vec<Problem>> {
        let mut input = PlanInput {
            problems: files.problems,
            ..PlanInput::default()
        };
        if let Some(namespace) = namespace
            && let Err(error) = rules::namespace(namespace)
        {
            let message = format!("--namespace: {namespace:?} {error}");
            input.problems.push(Problem::for_file(message));
        }
        if let Err(problems) = policy_objects::load_valid(&files.objects) {
            input.problems.extend(problems);
            return Err(input.problems);
        }
        for piece in files.objects {
            if !piece.source.is_kind(test::KIND) {
                input.add_document(piece.source.document, &piece.source.file, true);
            }
        }
        if input.problems.is_empty() {
            Ok(Self {
                jobs: input.jobs,
                facts: input.snapshot,
                notes: input.notes,
            })
        } else {
            Err(input.problems)
        }
    }

    /// Returns the jobs with their namespaces. No job is an error.
    fn assign_namespaces(
        &mut self,
        default: &str,
        requested_namespace: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        if self.jobs.is_empty() {
            let message = "no file contains a TrainingJob: name a file with one by -f";
            return Err(vec![Problem::for_file(message)]);
        }
        self.optional_jobs(default, requested_namespace)
    }

    /// Like `assign_namespaces`, but no job is no error.
    pub(super) fn optional_jobs(
        &mut self,
        default: &str,
        requested_namespace: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        let jobs = std::mem::take(&mut self.jobs);
        assign_namespaces(
            jobs,
            requested_namespace.unwrap_or(default),
            requested_namespace,
        )
    }
}

/// Renders all jobs for people.
fn render_jobs(jobs: &[DecidedJob]) -> String {
    let mut out = String::new();
    for (i, job) in jobs.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&format!(
            "TrainingJob {} {}\n",
            job.job,
            job.decision.as_str()
        ));
        for line in job.because.iter().chain(&job.rules) {
            out.push_str(&format!("  {line}\n"));
        }
        for row in &job.demands {
            render_row(row, &mut out);
        }
    }
    if jobs.len() > 1 {
        let count = |outcome| jobs.iter().filter(|j| j.decision == outcome).count();
        out.push_str(&format!(
            "\n{} jobs: {} allowed, {} denied, {} undecided\n",
            jobs.len(),
            count(DecisionOutcome::Allowed),
            count(DecisionOutcome::Denied),
            count(DecisionOutcome::Undecided)
        ));
    }
    out
}

fn render_row(row: &DemandRow, out: &mut String) {
    let names = match row.policies.as_slice() {
        [] => String::new(),
        ids => format!(" by {}", ids.join(", ")),
    };
    let word = row.decision.as_str();
    out.push_str(&format!("  {word:<14}{}{names}\n", row.describe_demand()));
    for line in &row.because {
        out.push_str(&format!("                {line}\n"));
    }
    for (word, ids) in [("warned of by", &row.warn), ("audited by", &row.audit)] {
        if !ids.is_empty() {
            out.push_str(&format!("                {word} {}\n", ids.join(", ")));
        }
    }
}
