//! `trellis submit`: jobs are created, and waited for.

mod input;
mod progress;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use trellis_api::TrainingJob;

use crate::cluster::{Followed, Unread, follow};
use crate::exit::Exit;
use crate::given::settle;
use crate::output::{print, warn};
use crate::target::{Place, Site};
use crate::wait::Patience;
use progress::{Progress, Seen};

/// The field manager of what is created.
const MANAGER: &str = "kubectl-trellis";

/// What to submit.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Files with the TrainingJobs to submit, or folders of such files (.yaml, .yml and .json);
    /// - is standard input.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// Wait until the jobs have ended, and tell of each step. Exit status: 0 all are Complete, 1
    /// one is not.
    #[arg(short, long)]
    wait: bool,
    /// How long to wait. The jobs go on.
    #[command(flatten)]
    patience: Patience,
    /// Have the API server and the admission webhook judge the jobs, and create none.
    #[arg(long)]
    dry_run: bool,
    /// Where.
    #[command(flatten)]
    place: Place,
}

/// Submits the jobs.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let given = match input::read(&options.filenames) {
        Ok(given) => given,
        Err(problems) => {
            for problem in problems {
                warn(&format!("error: {problem}"));
            }
            return Ok(Exit::Invalid.into());
        }
    };
    let site = options.place.connect()?;
    let asked = options.place.namespace.as_deref();
    let jobs = match settle(given, &site.namespace, asked) {
        Ok(jobs) => jobs,
        Err(problems) => {
            for problem in problems {
                warn(&format!("error: {problem}"));
            }
            return Ok(Exit::Invalid.into());
        }
    };
    site.cluster.wait_for(async {
        let mut worst = Exit::Done;
        let mut created = Vec::new();
        for job in jobs {
            match create(&site, &job, options.dry_run).await? {
                Some(job) => created.push(job),
                None => worst = Exit::Not,
            }
        }
        if options.wait && !options.dry_run {
            let several = created.len() > 1;
            let waits = created.iter().map(|job| until_the_end(&site, job, options, several));
            let waits = futures::future::try_join_all(waits);
            tokio::select! {
                ends = waits => {
                    let ends = ends?;
                    worst = ends.into_iter().find(|exit| *exit != Exit::Done).unwrap_or(worst);
                }
                _ = tokio::signal::ctrl_c() => {
                    let names: Vec<_> = created.iter().filter_map(|job| job.metadata.name.clone()).collect();
                    let names = names.join(" ");
                    warn(&format!("{names}: goes on without being watched; `trellis cancel {names}` ends it"));
                    worst = Exit::Interrupted;
                }
            }
        }
        Ok(worst.into())
    })
}

fn api(site: &Site, job: &TrainingJob) -> Api<TrainingJob> {
    let namespace = job.metadata.namespace.as_deref().unwrap_or(&site.namespace);
    Api::namespaced(site.cluster.client().clone(), namespace)
}

/// The job as it was created. None: it was not, and why has been said.
async fn create(
    site: &Site,
    job: &TrainingJob,
    dry_run: bool,
) -> anyhow::Result<Option<TrainingJob>> {
    let params = PostParams {
        dry_run,
        field_manager: Some(MANAGER.to_owned()),
    };
    let name = job.metadata.name.clone().unwrap_or_default();
    match api(site, job).create(&params, job).await {
        Ok(created) => {
            let how = if dry_run {
                "submitted (dry run)"
            } else {
                "submitted"
            };
            let name = created.metadata.name.as_deref().unwrap_or_default();
            print(&format!("trainingjob.trellis.dev/{name} {how}\n"))?;
            Ok(Some(created))
        }
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            warn(&format!(
                "error: a TrainingJob {name:?} is there already: give this one another name, change that one by `kubectl apply`, or end it by `trellis cancel {name}`"
            ));
            Ok(None)
        }
        // What admission says of this job says nothing of the others.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            warn(&format!("error: {name}: {}", status.message));
            Ok(None)
        }
        Err(error) => {
            let error = Unread::new::<TrainingJob>("create", error);
            Err(site.explain(error, "create trainingjobs.trellis.dev"))
        }
    }
}

async fn until_the_end(
    site: &Site,
    job: &TrainingJob,
    options: &Options,
    several: bool,
) -> anyhow::Result<Exit> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let mut progress = Progress::of(job, several);
    let mut unwritten = None;
    let look = |job: Option<&TrainingJob>| {
        let Seen { line, end } = progress.look(job, Timestamp::now());
        if let Some(line) = line
            && let Err(error) = print(&line)
        {
            unwritten = Some(error);
        }
        match end {
            Some(exit) => ControlFlow::Break(exit),
            None => ControlFlow::Continue(()),
        }
    };
    let within = options.patience.within();
    let seen = follow(&api(site, job), &name, within, look).await;
    let seen = seen.map_err(|error| site.explain(error, "watch trainingjobs.trellis.dev"))?;
    if let Some(error) = unwritten {
        return Err(error);
    }
    match seen {
        Followed::Seen(exit) => Ok(exit),
        Followed::Late => {
            warn(&format!("error: {name} has not ended in time, and goes on"));
            Ok(Exit::Late)
        }
    }
}
