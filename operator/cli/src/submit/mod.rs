//! `trellis submit`: creates jobs, and waits for them.

mod job_input;
mod job_progress;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use trellis_api::TrainingJob;
use trellis_reads::ApiFailure;

use crate::cluster::{FollowResult, follow};
use crate::exit::Exit;
use crate::files::job::assign_namespaces;
use crate::output::{print, print_if_read, print_to_stderr, warn};
use crate::target::{NamespaceOptions, TargetNamespace, report_result};
use crate::wait_options::WaitTimeout;
use job_progress::{JobProgress, ProgressStep};

/// The field manager of the created jobs.
const MANAGER: &str = "kubectl-trellis";

/// Options of `trellis submit`.
#[derive(clap::Args, Clone, Debug)]
pub struct SubmitOptions {
    /// Files with the TrainingJobs to submit.
    /// Folders are read for their .yaml, .yml and .json files; - is standard input.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// Wait until the jobs have ended, and print each step.
    /// The command does not wait for a job with another manager (spec.managedBy). Exit status: 0
    /// all are Complete, 1 one is not, or has another manager.
    #[arg(long)]
    wait: bool,
    /// Timeout of `--wait`. The jobs continue after it.
    #[command(flatten)]
    wait_timeout: WaitTimeout,
    /// Let the API server and the admission webhook check the jobs, but create none.
    #[arg(long, value_name = "server", value_parser = ["server"], num_args = 0..=1, require_equals = true, default_missing_value = "server", conflicts_with = "wait")]
    dry_run: Option<String>,
    /// Output for scripts: each created job as JSON (json) or its name (name).
    /// With json, each job is one line. Other commands accept the names. Standard output then
    /// contains nothing else, and the steps of --wait go to standard error.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<SubmitFormat>,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Output formats of created jobs.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SubmitFormat {
    /// As JSON, one job per line.
    Json,
    /// As kinds and names.
    Name,
}

/// Formats a created job.
fn format_created(
    job: &TrainingJob,
    output: Option<SubmitFormat>,
    dry_run: bool,
) -> anyhow::Result<String> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    Ok(match output {
        Some(SubmitFormat::Json) => format!("{}\n", serde_json::to_string(job).context("as JSON")?),
        Some(SubmitFormat::Name) => format!("trainingjob.trellis.dev/{name}\n"),
        None if dry_run => format!("trainingjob.trellis.dev/{name} submitted (dry run)\n"),
        None => format!("trainingjob.trellis.dev/{name} submitted\n"),
    })
}

/// Submits the jobs.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &SubmitOptions) -> anyhow::Result<ExitCode> {
    let input = match job_input::read_jobs(&options.filenames) {
        Ok(input) => input,
        Err(problems) => {
            for problem in problems {
                warn(&format!("error: {problem}"));
            }
            return Ok(Exit::Invalid.into());
        }
    };
    let site = options.target.connect()?;
    let required = options.target.namespace.as_deref();
    let jobs = match assign_namespaces(input, &site.reader.namespace, required) {
        Ok(jobs) => jobs,
        Err(problems) => {
            for problem in problems {
                warn(&format!("error: {problem}"));
            }
            return Ok(Exit::Invalid.into());
        }
    };
    site.cluster.block_on(async {
        let mut worst = Exit::Done;
        let mut created = Vec::new();
        for job in jobs {
            let name = job.likely_name().unwrap_or_default();
            match create_job(&site, &job, options).await {
                Ok(Some(job)) => created.push(job),
                Ok(None) => worst = worst.max(Exit::Negative),
                // The command still tries the other jobs, and waits for the created ones.
                Err(error) => worst = worst.max(report_result(&name, Err(error))),
            }
        }
        if options.wait {
            worst = worst.max(wait_for_all(&site, &created, options).await);
        }
        Ok(worst.into())
    })
}

/// Waits for the end of all jobs, the timeout or Ctrl-C.
/// Returns the worst result.
async fn wait_for_all(
    site: &TargetNamespace,
    created: &[TrainingJob],
    options: &SubmitOptions,
) -> Exit {
    let names: Vec<_> = created
        .iter()
        .filter_map(|job| job.metadata.name.clone())
        .collect();
    let several = created.len() > 1;
    let results = created.iter().zip(&names).map(async |(job, name)| {
        report_result(name, wait_for_end(site, job, options, several).await)
    });
    tokio::select! {
        ends = futures::future::join_all(results) => ends.into_iter().max().unwrap_or(Exit::Done),
        _ = tokio::signal::ctrl_c(), if !created.is_empty() => {
            let names = names.join(" ");
            warn(&format!("{names}: no longer watched, keeps running; `trellis cancel {names}` stops it"));
            Exit::Interrupted
        }
    }
}

fn job_api(site: &TargetNamespace, job: &TrainingJob) -> Api<TrainingJob> {
    let namespace = job
        .metadata
        .namespace
        .as_deref()
        .unwrap_or(&site.reader.namespace);
    Api::namespaced(site.cluster.client().clone(), namespace)
}

/// Returns the created job.
/// None: the job was rejected, and the reason was reported.
async fn create_job(
    site: &TargetNamespace,
    job: &TrainingJob,
    options: &SubmitOptions,
) -> anyhow::Result<Option<TrainingJob>> {
    let dry_run = options.dry_run.is_some();
    let params = PostParams {
        dry_run,
        field_manager: Some(MANAGER.to_owned()),
    };
    let name = job.likely_name().unwrap_or_default();
    match job_api(site, job).create(&params, job).await {
        Ok(created) => {
            print(&format_created(&created, options.output, dry_run)?)?;
            Ok(Some(created))
        }
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            warn(&format!(
                "error: TrainingJob {name:?} already exists: rename the new job, change the existing one with `kubectl apply`, or stop it with `trellis cancel {name}`"
            ));
            Ok(None)
        }
        // Admission may reject this job and still accept the next one.
        Err(kube::Error::Api(status))
            if matches!(status.code, 400 | 403 | 422) && !is_missing_right(&status) =>
        {
            warn(&format!("error: {name}: {}", status.message));
            Ok(None)
        }
        Err(error) => {
            let error = ApiFailure::new::<TrainingJob>("create", error);
            Err(site
                .reader
                .explain(error, "create trainingjobs.trellis.dev"))
        }
    }
}

/// Returns true if RBAC rejected the user, and not admission the job.
/// Both have status 403, but RBAC says `... is forbidden: User "ada" cannot create resource
/// "trainingjobs" ...`.
fn is_missing_right(status: &Status) -> bool {
    status.code == 403 && status.message.contains(" cannot create resource ")
}

async fn wait_for_end(
    site: &TargetNamespace,
    job: &TrainingJob,
    options: &SubmitOptions,
    several: bool,
) -> anyhow::Result<Exit> {
    let name = job.metadata.name.clone().unwrap_or_default();
    if let Some(manager) = job.spec.external_manager() {
        warn(&format!(
            "note: {manager} manages {name} (spec.managedBy), not Trellis: the command does not wait for its end"
        ));
        return Ok(Exit::Negative);
    }
    let mut progress = JobProgress::from_job(job, several);
    let mut unwritten = None;
    let look = |job: Option<&TrainingJob>| {
        let ProgressStep { line, end } = progress.observe(job, Timestamp::now());
        let print_line = |line: String| match options.output {
            Some(_) => print_to_stderr(&line),
            None => print_if_read(&line),
        };
        match line.map_or(Ok(true), print_line) {
            Ok(true) => {}
            // The reader has closed the output.
            Ok(false) => return ControlFlow::Break(Exit::Done),
            Err(error) => {
                unwritten = Some(error);
                return ControlFlow::Break(Exit::Invalid);
            }
        }
        match end {
            Some(exit) => ControlFlow::Break(exit),
            None => ControlFlow::Continue(()),
        }
    };
    let within = options.wait_timeout.as_duration();
    let result = follow(&job_api(site, job), &name, within, look).await;
    let result =
        result.map_err(|error| site.reader.explain(error, "watch trainingjobs.trellis.dev"))?;
    if let Some(error) = unwritten {
        return Err(error);
    }
    match result {
        FollowResult::Reached(exit) => Ok(exit),
        FollowResult::TimedOut => {
            warn(&format!(
                "error: {name} has not ended in time, and keeps running"
            ));
            Ok(Exit::TimedOut)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct SubmitCommandLine {
        #[command(flatten)]
        options: SubmitOptions,
    }

    fn parse_options(arguments: &[&str]) -> Option<SubmitOptions> {
        let all = ["trellis", "-f", "x.yaml"];
        let parsed = SubmitCommandLine::try_parse_from(all.iter().chain(arguments));
        parsed.ok().map(|line| line.options)
    }

    #[test]
    fn dry_run_option_matches_kubectl_and_conflicts_with_wait() {
        let dry =
            |arguments: &[&str]| parse_options(arguments).is_some_and(|o| o.dry_run.is_some());
        assert!(dry(&["--dry-run"]) && dry(&["--dry-run=server"]));
        assert!(parse_options(&[]).is_some_and(|options| options.dry_run.is_none()));
        for wrong in [
            &["--dry-run=client"][..],
            &["--dry-run", "--wait"],
            &["--timeout", "5m"],
        ] {
            assert!(parse_options(wrong).is_none(), "{wrong:?}");
        }
        assert!(parse_options(&["--wait", "--timeout", "5m"]).is_some());
    }

    #[test]
    fn created_job_is_printed_in_the_chosen_format() {
        let job: TrainingJob = serde_json::from_value(serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "train-x7k2p", "generateName": "train-", "namespace": "ml"},
            "spec": {"taskGroups": []},
        }))
        .unwrap();
        let text = |output| format_created(&job, output, false).unwrap();
        assert_eq!(
            text(Some(SubmitFormat::Name)),
            "trainingjob.trellis.dev/train-x7k2p\n"
        );
        let json = text(Some(SubmitFormat::Json));
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        assert_eq!(serde_json::from_str::<TrainingJob>(&json).unwrap(), job);
        assert_eq!(
            text(None),
            "trainingjob.trellis.dev/train-x7k2p submitted\n"
        );
    }

    #[test]
    fn missing_right_differs_from_an_admission_denial() {
        let forbidden =
            |message: &str| is_missing_right(&Status::failure(message, "Forbidden").with_code(403));
        assert!(forbidden(
            "trainingjobs.trellis.dev is forbidden: User \"ada\" cannot create resource \"trainingjobs\" in API group \"trellis.dev\" in the namespace \"ml\""
        ));
        assert!(!forbidden(
            "admission webhook \"jobs.trellis.dev\" denied the request: spec.queueName: may not be used by ada"
        ));
        assert!(!forbidden(
            "trainingjobs.trellis.dev \"llm\" is forbidden: exceeded quota: jobs"
        ));
    }
}
