//! `trellis policy eval`: everything that jobs ask for, and what is decided about it.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use trellis_api::document::Problem;
use trellis_api::{TrainingJob, rules};
use trellis_gang::key::Key;

use super::decisions::{DecidedJob, DecisionOutcome, DemandRow, JobToDecide};
use super::input_files::ParsedFiles;
use super::{PolicyOutputFormat, decision_notes, policy_objects, test};
use crate::output;
use crate::plan::cluster_reader::{ClusterReader, KubeconfigOptions, ReadPurpose};
use crate::plan::input::{self, PlanInput};
use crate::plan::snapshot::ClusterSnapshot;
use crate::plan::unlabelled_namespaces;
use crate::requester_options::RequesterOptions;

/// Whose jobs, by which policies.
#[derive(clap::Args, Debug)]
pub(super) struct EvalOptions {
    /// Files with `TrainingJobs` and policies, or folders with all below; - is standard
    /// input. The files may also hold `TrainingQueues`, Namespaces, `PriorityClasses` and
    /// Services.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    #[command(flatten)]
    requester: RequesterOptions,
    /// Decide as if the files were applied to the current cluster.
    #[arg(long)]
    cluster: bool,
    /// Namespace of jobs that name none. Without it `default`, with --cluster that of
    /// the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How it is printed. Without it, as people read it.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
    #[command(flatten)]
    access: KubeconfigOptions,
}

/// What is decided about all jobs.
#[derive(Serialize)]
struct EvalReport {
    /// Hash of the policies that decide.
    set: String,
    jobs: Vec<DecidedJob>,
}

/// Decides, and says by the exit status whether all may run.
pub(super) fn run(options: &EvalOptions) -> anyhow::Result<ExitCode> {
    let files = ParsedFiles::read(&options.filenames);
    let mut given = match EvalInput::from_files(files, options.namespace.as_deref()) {
        Ok(given) => given,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    if !options.cluster && options.access.is_set() {
        return Ok(output::print_problems(&[needs_cluster_problem()]));
    }
    let jobs = if options.cluster {
        let cluster = ClusterReader::connect(&options.access, ReadPurpose::Policies)?;
        let jobs = match given.assign_namespaces(cluster.namespace(), options.namespace.as_deref())
        {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::print_problems(&problems)),
        };
        let mut seen = cluster.read_facts(&jobs)?;
        cluster
            .get_jobs(&jobs)?
            .into_iter()
            .for_each(|job| seen.snapshot.add_job(job));
        seen.snapshot.overlay(given.facts);
        given.facts = seen.snapshot;
        given.notes.extend(seen.notes);
        jobs
    } else {
        let jobs = match given.assign_namespaces("default", options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::print_problems(&problems)),
        };
        given
            .notes
            .extend(unlabelled_namespaces::note_unlabelled(&jobs, &given.facts));
        jobs
    };
    let EvalInput {
        mut facts, notes, ..
    } = given;
    for note in &notes {
        output::warn(&format!("note: {note}"));
    }
    if facts.policies.is_unset() {
        output::warn("note: no policy is given: the starter set decides");
    }
    facts.queues_or_default();
    for wrong in facts.policies.load() {
        output::warn(&format!("note: {wrong}"));
    }
    let Some(policies) = facts.policies.loaded() else {
        anyhow::bail!("the policies cannot be loaded");
    };
    let requester = options.requester.requester();
    let decide = |job: &TrainingJob| {
        let asked = JobToDecide {
            job,
            in_cluster: facts.jobs.get(&Key::from_meta(&job.metadata)),
            requester: requester.as_ref(),
        };
        asked.decide(policies, &facts)
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

/// What is wrong where a cluster is named and none is asked.
pub(super) fn needs_cluster_problem() -> Problem {
    Problem::for_file(
        "--kubeconfig and --context say which cluster, and none is asked: add --cluster",
    )
}

/// Jobs and what is known around them, of files.
pub(super) struct EvalInput {
    jobs: Vec<input::FileJob>,
    pub(super) facts: ClusterSnapshot,
    pub(super) notes: Vec<String>,
}

impl EvalInput {
    /// What files hold: policies are all good, tests of their own are left out.
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

    /// The jobs, each in its namespace. There is at least one.
    fn assign_namespaces(
        &mut self,
        default: &str,
        asked: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        if self.jobs.is_empty() {
            let message = "no file holds a TrainingJob: name one by -f that does";
            return Err(vec![Problem::for_file(message)]);
        }
        self.optional_jobs(default, asked)
    }

    /// The same where there may be none.
    pub(super) fn optional_jobs(
        &mut self,
        default: &str,
        asked: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        let jobs = std::mem::take(&mut self.jobs);
        input::assign_namespaces(jobs, asked.unwrap_or(default), asked)
    }
}

/// All jobs as people read them.
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
        let of = |outcome| jobs.iter().filter(|j| j.decision == outcome).count();
        out.push_str(&format!(
            "\n{} jobs: {} allowed, {} denied, {} undecided\n",
            jobs.len(),
            of(DecisionOutcome::Allowed),
            of(DecisionOutcome::Denied),
            of(DecisionOutcome::Undecided)
        ));
    }
    out
}

fn render_row(row: &DemandRow, out: &mut String) {
    let by = match row.policies.as_slice() {
        [] => String::new(),
        ids => format!(" by {}", ids.join(", ")),
    };
    let word = row.decision.as_str();
    out.push_str(&format!("  {word:<14}{}{by}\n", row.describe_demand()));
    for line in &row.because {
        out.push_str(&format!("                {line}\n"));
    }
    for (word, ids) in [("warned of by", &row.warn), ("audited by", &row.audit)] {
        if !ids.is_empty() {
            out.push_str(&format!("                {word} {}\n", ids.join(", ")));
        }
    }
}
