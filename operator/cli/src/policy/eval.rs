//! `trellis policy eval`: everything that jobs ask for, and what is decided about it.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use trellis_api::document::Problem;
use trellis_api::{TrainingJob, rules};
use trellis_gang::key::Key;

use super::decided::{Asked, Decided, Outcome, Row};
use super::files::Files;
use super::{Format, notes, objects, test};
use crate::output;
use crate::plan::input::{self, Input};
use crate::plan::live::{Access, Cluster, Purpose};
use crate::plan::namespaces;
use crate::plan::snapshot::Snapshot;
use crate::submitter::Submitter;

/// Whose jobs, by which policies.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Files with `TrainingJobs` and policies, or folders with all below; - is standard
    /// input. The files may also hold `TrainingQueues`, Namespaces, `PriorityClasses` and
    /// Services.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    #[command(flatten)]
    submitter: Submitter,
    /// Decide as if the files were applied to the current cluster.
    #[arg(long)]
    cluster: bool,
    /// Namespace of jobs that name none. Without it `default`, with --cluster that of
    /// the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How it is printed. Without it, as people read it.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    access: Access,
}

/// What is decided about all jobs.
#[derive(Serialize)]
struct Report {
    /// Hash of the policies that decide.
    set: String,
    jobs: Vec<Decided>,
}

/// Decides, and says by the exit status whether all may run.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let files = Files::read(&options.filenames);
    let mut given = match Given::of(files, options.namespace.as_deref()) {
        Ok(given) => given,
        Err(problems) => return Ok(output::refuse(&problems)),
    };
    if !options.cluster && options.access.is_given() {
        return Ok(output::refuse(&[needs_cluster()]));
    }
    let jobs = if options.cluster {
        let cluster = Cluster::connect(&options.access, Purpose::Policies)?;
        let jobs = match given.settle(cluster.namespace(), options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::refuse(&problems)),
        };
        let mut seen = cluster.facts(&jobs)?;
        cluster
            .named(&jobs)?
            .into_iter()
            .for_each(|job| seen.snapshot.job(job));
        seen.snapshot.overlay(given.facts);
        given.facts = seen.snapshot;
        given.notes.extend(seen.notes);
        jobs
    } else {
        let jobs = match given.settle("default", options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::refuse(&problems)),
        };
        given
            .notes
            .extend(namespaces::unlabelled(&jobs, &given.facts));
        jobs
    };
    let Given {
        mut facts, notes, ..
    } = given;
    for note in &notes {
        output::warn(&format!("note: {note}"));
    }
    if facts.policies.are_unknown() {
        output::warn("note: no policy is given: the starter set decides");
    }
    facts.with_queues();
    for wrong in facts.policies.load() {
        output::warn(&format!("note: {wrong}"));
    }
    let Some(policies) = facts.policies.loaded() else {
        anyhow::bail!("the policies cannot be loaded");
    };
    let requester = options.submitter.requester();
    let decide = |job: &TrainingJob| {
        let asked = Asked {
            job,
            there: facts.jobs.get(&Key::of(&job.metadata)),
            requester: requester.as_ref(),
        };
        asked.decide(policies, &facts)
    };
    let report = Report {
        set: policies.hash().to_owned(),
        jobs: jobs.iter().map(decide).collect(),
    };
    for note in notes::of_jobs(facts.policies.objects(), &report.jobs) {
        output::warn(&format!("note: {note}"));
    }
    match options.output {
        None => output::print(&text(&report.jobs))?,
        Some(Format::Json) => super::print_json(&report)?,
    }
    let all = report.jobs.iter().all(|j| j.decision == Outcome::Allowed);
    Ok(super::answer(all))
}

/// What is wrong where a cluster is named and none is asked.
pub(super) fn needs_cluster() -> Problem {
    Problem::of_file(
        "--kubeconfig and --context say which cluster, and none is asked: add --cluster",
    )
}

/// Jobs and what is known around them, of files.
pub(super) struct Given {
    jobs: Vec<input::Given>,
    pub(super) facts: Snapshot,
    pub(super) notes: Vec<String>,
}

impl Given {
    /// What files hold: policies are all good, tests of their own are left out.
    pub(super) fn of(files: Files, namespace: Option<&str>) -> Result<Self, Vec<Problem>> {
        let mut input = Input {
            problems: files.problems,
            ..Input::default()
        };
        if let Some(namespace) = namespace
            && let Err(error) = rules::namespace(namespace)
        {
            let message = format!("--namespace: {namespace:?} {error}");
            input.problems.push(Problem::of_file(message));
        }
        if let Err(problems) = objects::good(&files.pieces) {
            input.problems.extend(problems);
            return Err(input.problems);
        }
        for piece in files.pieces {
            if !piece.source.is(test::KIND) {
                input.document(piece.source.document, &piece.source.file, true);
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
    fn settle(
        &mut self,
        default: &str,
        asked: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        if self.jobs.is_empty() {
            let message = "no file holds a TrainingJob: name one by -f that does";
            return Err(vec![Problem::of_file(message)]);
        }
        self.jobs(default, asked)
    }

    /// The same where there may be none.
    pub(super) fn jobs(
        &mut self,
        default: &str,
        asked: Option<&str>,
    ) -> Result<Vec<TrainingJob>, Vec<Problem>> {
        let jobs = std::mem::take(&mut self.jobs);
        input::settle(jobs, asked.unwrap_or(default), asked)
    }
}

/// All jobs as people read them.
fn text(jobs: &[Decided]) -> String {
    let mut out = String::new();
    for (i, job) in jobs.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&format!(
            "TrainingJob {} {}\n",
            job.job,
            job.decision.word()
        ));
        for line in job.because.iter().chain(&job.rules) {
            out.push_str(&format!("  {line}\n"));
        }
        for row in &job.demands {
            one(row, &mut out);
        }
    }
    if jobs.len() > 1 {
        let of = |outcome| jobs.iter().filter(|j| j.decision == outcome).count();
        out.push_str(&format!(
            "\n{} jobs: {} allowed, {} denied, {} undecided\n",
            jobs.len(),
            of(Outcome::Allowed),
            of(Outcome::Denied),
            of(Outcome::Undecided)
        ));
    }
    out
}

fn one(row: &Row, out: &mut String) {
    let by = match row.policies.as_slice() {
        [] => String::new(),
        ids => format!(" by {}", ids.join(", ")),
    };
    let word = row.decision.word();
    out.push_str(&format!("  {word:<14}{}{by}\n", row.asked()));
    for line in &row.because {
        out.push_str(&format!("                {line}\n"));
    }
    for (word, ids) in [("warned of by", &row.warn), ("audited by", &row.audit)] {
        if !ids.is_empty() {
            out.push_str(&format!("                {word} {}\n", ids.join(", ")));
        }
    }
}
