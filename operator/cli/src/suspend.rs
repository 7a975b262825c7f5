//! `trellis suspend` and `trellis resume`: a job gives its place back, and waits for one again.

use std::ops::ControlFlow;
use std::process::ExitCode;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};

use crate::cluster::{Followed, Unread, follow, named};
use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::{Place, Site, for_each};
use crate::wait::Patience;

/// The field manager of what we write.
const MANAGER: &str = "kubectl-trellis";

/// Which jobs.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The jobs: NAME or tj/NAME.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Wait until it is so: all pods have stopped, or all run.
    #[arg(short, long)]
    wait: bool,
    /// How long to wait.
    #[command(flatten)]
    patience: Patience,
    /// Where.
    #[command(flatten)]
    place: Place,
}

/// What is wanted of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// It gives its place back.
    Suspended,
    /// It has one again.
    Resumed,
}

impl Want {
    const fn word(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
        }
    }

    fn is_asked(self, job: &TrainingJob) -> bool {
        job.spec.suspend.unwrap_or(false) == (self == Self::Suspended)
    }

    /// Some once nothing more is to be waited for.
    fn reached(self, job: &TrainingJob) -> Option<Exit> {
        let status = job.status.as_ref()?;
        let is_current = status.observed_generation == job.metadata.generation;
        let phase = status.phase.filter(|_| is_current)?;
        match (self, phase) {
            (_, JobPhase::Failed | JobPhase::Refused) => Some(Exit::Not),
            (_, JobPhase::Complete) | (Self::Suspended, JobPhase::Suspended) => Some(Exit::Done),
            (Self::Resumed, JobPhase::Running) => Some(Exit::Done),
            _ => None,
        }
    }
}

/// Has the jobs suspended, or resumed.
///
/// # Errors
/// If a name is none, or the cluster cannot be asked.
pub fn run(options: &Options, want: Want) -> anyhow::Result<ExitCode> {
    for_each(&options.place, &options.jobs, async |site, name| {
        one(site, name, want, options).await
    })
}

async fn one(site: &Site, name: &str, want: Want, options: &Options) -> anyhow::Result<Exit> {
    let jobs = site.jobs();
    let denied = |error: Unread| site.explain(error, "get and patch trainingjobs.trellis.dev");
    let Some(job) = named(&jobs, name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.not_there(name)));
        return Ok(Exit::Not);
    };
    let has_ended = job
        .status
        .as_ref()
        .is_some_and(TrainingJobStatus::has_ended);
    if has_ended {
        let phase = job.status.as_ref().and_then(|status| status.phase);
        let phase = phase.map_or("", JobPhase::as_str);
        warn(&format!(
            "error: {name} has ended ({phase}), and does not run again: submit it anew"
        ));
        return Ok(Exit::Not);
    }
    if want.is_asked(&job) {
        print(&format!(
            "trainingjob.trellis.dev/{name} already {}\n",
            want.word()
        ))?;
    } else {
        if let Some(note) = delivered(&job) {
            warn(&format!("note: {note}"));
        }
        ask(&jobs, name, want).await.map_err(denied)?;
        print(&format!("trainingjob.trellis.dev/{name} {}\n", want.word()))?;
    }
    if !options.wait {
        return Ok(Exit::Done);
    }
    let look = |job: Option<&TrainingJob>| match job.map(|job| want.reached(job)) {
        None => ControlFlow::Break(Exit::Not),
        Some(Some(exit)) => ControlFlow::Break(exit),
        Some(None) => ControlFlow::Continue(()),
    };
    let denied = |error: Unread| site.explain(error, "watch trainingjobs.trellis.dev");
    match follow(&jobs, name, options.patience.within(), look)
        .await
        .map_err(denied)?
    {
        Followed::Seen(exit) => Ok(exit),
        Followed::Late => {
            warn(&format!(
                "error: {name} is not {} yet: `trellis status {name}` says where it is",
                want.word()
            ));
            Ok(Exit::Late)
        }
    }
}

async fn ask(jobs: &Api<TrainingJob>, name: &str, want: Want) -> Result<TrainingJob, Unread> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = json!({"spec": {"suspend": want == Want::Suspended}});
    let patched = jobs.patch(name, &params, &Patch::Merge(patch)).await;
    patched.map_err(|error| Unread::new::<TrainingJob>("patch", error))
}

/// That somebody delivers the job, and may take back what is written here.
fn delivered(job: &TrainingJob) -> Option<String> {
    let annotations = job.metadata.annotations.as_ref();
    let argo = annotations.and_then(|a| a.get("argocd.argoproj.io/tracking-id"));
    let labels = job.metadata.labels.as_ref();
    let flux = labels.and_then(|l| l.get("kustomize.toolkit.fluxcd.io/name"));
    let by = match (argo, flux) {
        (Some(id), _) => format!("Argo CD ({})", id.split(':').next().unwrap_or(id)),
        (None, Some(name)) => format!("Flux ({name})"),
        (None, None) => return None,
    };
    Some(format!(
        "{by} delivers this job and may take it back, as with selfHeal: change spec.suspend where it comes from"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn job(more: Value) -> TrainingJob {
        let mut job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "generation": 2},
            "spec": {"taskGroups": []},
        });
        for (key, value) in more.as_object().unwrap() {
            job[key] = value.clone();
        }
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn what_was_said_of_the_spec_before_is_not_waited_for() {
        let at = |generation: i64, phase: &str| {
            job(json!({"status": {"observedGeneration": generation, "phase": phase}}))
        };
        assert_eq!(
            Want::Suspended.reached(&at(2, "Suspended")),
            Some(Exit::Done)
        );
        assert_eq!(Want::Resumed.reached(&at(1, "Running")), None);
        assert_eq!(Want::Resumed.reached(&at(2, "Queued")), None);
        assert_eq!(Want::Resumed.reached(&at(2, "Running")), Some(Exit::Done));
        assert_eq!(Want::Resumed.reached(&at(2, "Refused")), Some(Exit::Not));
        assert_eq!(Want::Suspended.reached(&job(json!({}))), None);
    }

    #[test]
    fn who_delivers_a_job_is_named() {
        let meta = |meta: Value| job(json!({"metadata": meta}));
        assert_eq!(delivered(&meta(json!({"name": "llm"}))), None);
        let argo = json!({"annotations": {"argocd.argoproj.io/tracking-id": "team-a:trellis.dev/TrainingJob:a/llm"}});
        let said = delivered(&meta(argo)).unwrap();
        assert!(said.starts_with("Argo CD (team-a) delivers"), "{said}");
        let flux = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}});
        assert!(delivered(&meta(flux)).unwrap().starts_with("Flux (apps)"));
    }
}
