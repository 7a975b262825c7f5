//! `trellis cancel`: a job ends and goes, as with Slurm's `scancel`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use trellis_api::{TrainingJob, names};

use crate::cluster::{Followed, Unread, follow, list, named};
use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::{Place, Site, for_each};
use crate::wait::Patience;

/// Which jobs.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The jobs: NAME or tj/NAME.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Wait until the last pod has stopped.
    #[arg(short, long)]
    wait: bool,
    /// How long to wait.
    #[command(flatten)]
    patience: Patience,
    /// Where.
    #[command(flatten)]
    place: Place,
}

/// Cancels the jobs.
///
/// # Errors
/// If a name is none, or the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    for_each(&options.place, &options.jobs, async |site, name| {
        one(site, name, options).await
    })
}

async fn one(site: &Site, name: &str, options: &Options) -> anyhow::Result<Exit> {
    let jobs = site.jobs();
    let denied = |error: Unread| site.explain(error, "get and delete trainingjobs.trellis.dev");
    let Some(job) = named(&jobs, name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.not_there(name)));
        return Ok(Exit::Not);
    };
    // The job stays until its pods have stopped: whoever waits for it waits for them.
    let foreground = DeleteParams::foreground();
    match jobs.delete(name, &foreground).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(denied(Unread::new::<TrainingJob>("delete", error))),
    }
    print(&format!(
        "trainingjob.trellis.dev/{name} cancelled{}\n",
        grace(&job)
    ))?;
    if !options.wait {
        return Ok(Exit::Done);
    }
    let uid = job.metadata.uid.clone();
    let look = |job: Option<&TrainingJob>| match job {
        // Another of that name is none of ours.
        Some(job) if job.metadata.uid == uid => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let denied = |error: Unread| site.explain(error, "watch trainingjobs.trellis.dev");
    match follow(&jobs, name, options.patience.within(), look)
        .await
        .map_err(denied)?
    {
        Followed::Seen(()) => Ok(Exit::Done),
        Followed::Late => {
            let left = still_there(site, name).await;
            warn(&format!("error: {name} is not gone yet{left}"));
            Ok(Exit::Late)
        }
    }
}

/// How long its pods have to save what they have.
fn grace(job: &TrainingJob) -> String {
    let pods = job.status.as_ref().and_then(|status| status.pods.as_ref());
    let running = pods.map_or(0, |pods| pods.running);
    match running {
        0 => String::new(),
        1 => format!(
            ": its pod has {} s to stop",
            job.spec.grace_period_seconds()
        ),
        pods => format!(
            ": its {pods} pods have {} s to stop",
            job.spec.grace_period_seconds()
        ),
    }
}

async fn still_there(site: &Site, name: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(site.cluster.client().clone(), &site.namespace);
    let ours = ListParams::default().labels(&format!("{}={name}", names::JOB));
    match list(&pods, &ours).await {
        Ok(Some(pods)) if !pods.is_empty() => {
            let some: Vec<_> = pods
                .iter()
                .take(3)
                .filter_map(|pod| pod.metadata.name.clone())
                .collect();
            format!(
                ": {} pods still stop, such as {}",
                pods.len(),
                some.join(", ")
            )
        }
        _ => String::new(),
    }
}
