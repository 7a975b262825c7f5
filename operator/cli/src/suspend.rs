//! `trellis suspend` and `trellis resume`: a job gives its place back, and waits for one again.

use std::ops::ControlFlow;
use std::process::ExitCode;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{Delivery, TrainingJob};

use crate::cluster::{Followed, Unread, follow, named};
use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::{Place, Site, for_each};
use crate::wait::Patience;

/// The field manager of what we write.
const MANAGER: &str = "kubectl-trellis";
/// How often a job that changes meanwhile is looked at again.
const TRIES: usize = 10;
/// What is said of a name that has come to another.
const ANOTHER: &str =
    "is another job by now, and was left alone: somebody has deleted the one that was meant";

/// Which jobs.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The jobs: NAME or tj/NAME.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Wait until it is so: all pods have stopped, or all run.
    #[arg(long)]
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

    /// What is not so where it is asked for and not reached.
    const fn lacks(self) -> &'static str {
        match self {
            Self::Suspended => "has pods still",
            Self::Resumed => "does not run yet",
        }
    }

    fn is_asked(self, job: &TrainingJob) -> bool {
        job.spec.suspend.unwrap_or(false) == (self == Self::Suspended)
    }

    /// Some once nothing more is to be waited for, with why where it is not as wanted. `uid` is of
    /// the job that is meant.
    fn reached(self, job: Option<&TrainingJob>, uid: Option<&str>) -> Option<(Exit, String)> {
        let not = |why: &str| Some((Exit::Not, why.to_owned()));
        let Some(job) = job else {
            return not("is gone: somebody has deleted it");
        };
        if job.metadata.uid.as_deref() != uid {
            return not(ANOTHER);
        }
        let status = job.status.as_ref()?;
        let is_current = status.observed_generation == job.metadata.generation;
        // What has ended is not looked at again.
        let phase = status.phase.filter(|_| is_current || status.has_ended())?;
        let done = Some((Exit::Done, String::new()));
        match (self, phase) {
            (Self::Suspended, JobPhase::Suspended)
            | (Self::Resumed, JobPhase::Running | JobPhase::Complete) => done,
            (_, JobPhase::Failed | JobPhase::Refused | JobPhase::Complete) => {
                let message = status.message.as_deref().unwrap_or_default();
                let colon = if message.is_empty() { "" } else { ": " };
                let why = format!("is {}{colon}{message}", phase.as_str());
                Some((Exit::Not, why))
            }
            _ if status.has_ended() => not("has ended"),
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
    let uid = job.metadata.uid.clone();
    let by = Delivery::of(&job.metadata);
    let manager = job.spec.other_manager().map(str::to_owned);
    match ask(&jobs, name, want, job).await.map_err(denied)? {
        Asked::Before => print(&format!(
            "trainingjob.trellis.dev/{name} already {}\n",
            want.word()
        ))?,
        Asked::Now => {
            if let Some(by) = by {
                warn(&format!(
                    "note: {by} delivers this job and may take it back, as with selfHeal: change spec.suspend where it comes from"
                ));
            }
            print(&format!("trainingjob.trellis.dev/{name} {}\n", want.word()))?
        }
        Asked::Not(why) => {
            warn(&format!("error: {name} {why}"));
            return Ok(Exit::Not);
        }
    };
    if let Some(manager) = manager {
        let not_waited = if options.wait {
            ", and is not waited for"
        } else {
            ""
        };
        warn(&format!(
            "note: {manager} sees to {name} (spec.managedBy), not Trellis: whether it is {} is up to that{not_waited}",
            want.word()
        ));
        return Ok(if options.wait { Exit::Not } else { Exit::Done });
    }
    if !options.wait {
        return Ok(Exit::Done);
    }
    let look = |job: Option<&TrainingJob>| match want.reached(job, uid.as_deref()) {
        Some(end) => ControlFlow::Break(end),
        None => ControlFlow::Continue(()),
    };
    let denied = |error: Unread| site.explain(error, "watch trainingjobs.trellis.dev");
    match follow(&jobs, name, options.patience.within(), look)
        .await
        .map_err(denied)?
    {
        Followed::Seen((exit, why)) => {
            if exit != Exit::Done {
                warn(&format!("error: {name} {why}"));
            }
            Ok(exit)
        }
        Followed::Late => {
            warn(&format!(
                "error: {name} {}: `trellis status {name}` says where it is, and `trellis explain {name}` what it waits for",
                want.lacks()
            ));
            Ok(Exit::Late)
        }
    }
}

/// What came of asking for it.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// It was asked for before.
    Before,
    /// It is asked for now.
    Now,
    /// It was not asked for, and why.
    Not(String),
}

/// Asks for it, of the job that was looked at and as it was then: one that has ended meanwhile, or
/// is another by now, is left alone.
async fn ask(
    jobs: &Api<TrainingJob>,
    name: &str,
    want: Want,
    mut job: TrainingJob,
) -> Result<Asked, Unread> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let uid = job.metadata.uid.clone();
    for _ in 0..TRIES {
        if job.metadata.uid != uid {
            return Ok(Asked::Not(ANOTHER.to_owned()));
        }
        if let Some(why) = ended(&job) {
            return Ok(Asked::Not(why));
        }
        if want.is_asked(&job) {
            return Ok(Asked::Before);
        }
        let meta = json!({"uid": uid, "resourceVersion": job.metadata.resource_version});
        let spec = json!({"suspend": want == Want::Suspended});
        let patch = json!({"metadata": meta, "spec": spec});
        match jobs.patch(name, &params, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(Asked::Now),
            // It has changed since: it is looked at again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                match named(jobs, name).await? {
                    Some(now) => job = now,
                    None => return Ok(Asked::Not("is gone: somebody has deleted it".to_owned())),
                }
            }
            Err(error) => return Err(Unread::new::<TrainingJob>("patch", error)),
        }
    }
    Ok(Asked::Not(
        "changes all the time, and could not be written: try again".to_owned(),
    ))
}

fn ended(job: &TrainingJob) -> Option<String> {
    let status = job.status.as_ref()?;
    let phase = status.phase.map_or("", JobPhase::as_str);
    status
        .has_ended()
        .then(|| format!("has ended ({phase}), and does not run again: submit it anew"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    fn job(more: Value) -> TrainingJob {
        let mut job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "uid": "u", "resourceVersion": "7", "generation": 2},
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
            job(
                json!({"status": {"observedGeneration": generation, "phase": phase,
                "message": "spec.queueName"}}),
            )
        };
        let exit = |want: Want, job: &TrainingJob| {
            let end = want.reached(Some(job), Some("u"));
            end.map(|(exit, _)| exit)
        };
        let (suspended, resumed) = (Want::Suspended, Want::Resumed);
        assert_eq!(exit(suspended, &at(2, "Suspended")), Some(Exit::Done));
        assert_eq!(exit(resumed, &at(1, "Running")), None);
        assert_eq!(exit(resumed, &at(2, "Queued")), None);
        assert_eq!(exit(resumed, &at(2, "Running")), Some(Exit::Done));
        assert_eq!(exit(suspended, &job(json!({}))), None);
        let refused = resumed.reached(Some(&at(2, "Refused")), Some("u"));
        assert_eq!(
            refused,
            Some((Exit::Not, "is Refused: spec.queueName".to_owned()))
        );
    }

    #[test]
    fn the_waiting_ends_with_why_where_nothing_more_comes() {
        let status = json!({"observedGeneration": 1, "phase": "Complete",
            "completionTime": "2026-01-01T00:00:00Z"});
        let complete = job(json!({"status": status}));
        let said = |want: Want, job: Option<&TrainingJob>, uid| {
            want.reached(job, Some(uid))
                .unwrap_or_else(|| panic!("{job:?} is waited for"))
        };
        let (exit, why) = said(Want::Suspended, Some(&complete), "u");
        assert_eq!((exit, why.as_str()), (Exit::Not, "is Complete"));
        assert_eq!(said(Want::Resumed, Some(&complete), "u").0, Exit::Done);
        let (exit, why) = said(Want::Resumed, None, "u");
        assert_eq!(exit, Exit::Not);
        assert!(why.contains("deleted"), "{why}");
        let (exit, why) = said(Want::Resumed, Some(&job(json!({}))), "v");
        assert_eq!((exit, why.as_str()), (Exit::Not, ANOTHER));
    }

    /// What the API server answers in turn, and what it was sent.
    async fn asked(answers: Vec<(u16, Value)>) -> (Asked, Vec<Value>) {
        let (turn, sent) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&sent);
        let serve = move |request: Request<Body>| {
            let (code, body) = answers[turn.fetch_add(1, Ordering::Relaxed)].clone();
            let seen = Arc::clone(&seen);
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                if let Ok(patch) = serde_json::from_slice(&bytes) {
                    seen.lock().unwrap().push(patch);
                }
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
            }
        };
        let client = kube::Client::new(tower::service_fn(serve), "ml");
        let jobs = Api::namespaced(client, "ml");
        let first = job(json!({}));
        let asked = ask(&jobs, "llm", Want::Suspended, first).await.unwrap();
        let sent = sent.lock().unwrap().clone();
        (asked, sent)
    }

    #[tokio::test]
    async fn a_job_that_has_changed_is_looked_at_before_it_is_written() {
        let changed = || {
            let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Failure", "message": "modified", "reason": "Conflict", "code": 409});
            (409, body)
        };
        let now = |more: Value| (200, serde_json::to_value(job(more)).unwrap());
        let (came_to, sent) = asked(vec![changed(), now(json!({})), now(json!({}))]).await;
        assert_eq!(came_to, Asked::Now);
        assert_eq!(sent.len(), 2);
        assert_eq!(
            sent[0]["metadata"],
            json!({"uid": "u", "resourceVersion": "7"})
        );
        let ended =
            json!({"status": {"phase": "Failed", "completionTime": "2026-01-01T00:00:00Z"}});
        let (came_to, _) = asked(vec![changed(), now(ended)]).await;
        let Asked::Not(why) = came_to else {
            panic!("{came_to:?}")
        };
        assert!(why.starts_with("has ended (Failed)"), "{why}");
        let meta = json!({"name": "llm", "uid": "v", "resourceVersion": "9"});
        let (came_to, _) = asked(vec![changed(), now(json!({"metadata": meta}))]).await;
        assert_eq!(came_to, Asked::Not(ANOTHER.to_owned()));
    }
}
