//! `trellis suspend` and `trellis resume`.
//! A suspended job releases its nodes, and a resumed job is queued again.

use std::ops::ControlFlow;
use std::process::ExitCode;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{Delivery, TrainingJob};
use trellis_reads::{ApiFailure, get_optional};

use crate::cluster::{FollowResult, follow};
use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::{NamespaceOptions, TargetNamespace, for_each_job};
use crate::wait_options::WaitTimeout;

/// The field manager of the patches.
const MANAGER: &str = "kubectl-trellis";
/// Greatest number of attempts to patch a job that changes at the same time.
const TRIES: usize = 10;
/// Message for a name that belongs to another job now.
const NAME_REUSED: &str = "is a new job now and was not changed: the original job was deleted";

/// Options of `trellis suspend` and `trellis resume`.
#[derive(clap::Args, Clone, Debug)]
pub struct SuspendOptions {
    /// The jobs: NAME or tj/NAME.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Wait until all pods have stopped (suspend), or all pods run (resume).
    #[arg(long)]
    wait: bool,
    /// Timeout of `--wait`.
    #[command(flatten)]
    wait_timeout: WaitTimeout,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// The target state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendTarget {
    /// The job releases its nodes.
    Suspended,
    /// The job runs again.
    Resumed,
}

impl SuspendTarget {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
        }
    }

    /// Message if the timeout expires before the job reaches the state.
    const fn unreached_text(self) -> &'static str {
        match self {
            Self::Suspended => "still has pods",
            Self::Resumed => "is not running yet",
        }
    }

    fn is_requested(self, job: &TrainingJob) -> bool {
        job.spec.suspend.unwrap_or(false) == (self == Self::Suspended)
    }

    /// Returns the result if the wait is over.
    /// The text is the reason if the job missed the target. `uid` is the uid of the original job.
    fn check_reached(self, job: Option<&TrainingJob>, uid: Option<&str>) -> Option<(Exit, String)> {
        let negative = |reason: &str| Some((Exit::Negative, reason.to_owned()));
        let Some(job) = job else {
            return negative("was deleted");
        };
        if job.metadata.uid.as_deref() != uid {
            return negative(NAME_REUSED);
        }
        let status = job.status.as_ref()?;
        let is_current = status.observed_generation == job.metadata.generation;
        // The operator does not update the observed generation of an ended job.
        let phase = status.phase.filter(|_| is_current || status.has_ended())?;
        let reached = Some((Exit::Done, String::new()));
        match (self, phase) {
            (Self::Suspended, JobPhase::Suspended)
            | (Self::Resumed, JobPhase::Running | JobPhase::Complete) => reached,
            (_, JobPhase::Failed | JobPhase::Refused | JobPhase::Complete) => {
                let message = status.message.as_deref().unwrap_or_default();
                let colon = if message.is_empty() { "" } else { ": " };
                let reason = format!("is {}{colon}{message}", phase.as_str());
                Some((Exit::Negative, reason))
            }
            _ if status.has_ended() => negative("has ended"),
            _ => None,
        }
    }
}

/// Suspends or resumes the jobs.
///
/// # Errors
/// If a name is invalid, or the cluster cannot be reached.
pub fn run(options: &SuspendOptions, want: SuspendTarget) -> anyhow::Result<ExitCode> {
    for_each_job(&options.target, &options.jobs, async |site, name| {
        suspend_or_resume(site, name, want, options).await
    })
}

async fn suspend_or_resume(
    site: &TargetNamespace,
    name: &str,
    want: SuspendTarget,
    options: &SuspendOptions,
) -> anyhow::Result<Exit> {
    let jobs = site.reader.jobs();
    let denied = |error: ApiFailure| {
        site.reader
            .explain(error, "get and patch trainingjobs.trellis.dev")
    };
    let Some(job) = get_optional(&jobs, name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.reader.not_found_error(name)));
        return Ok(Exit::Negative);
    };
    let uid = job.metadata.uid.clone();
    let delivery = Delivery::from_metadata(&job.metadata);
    let manager = job.spec.external_manager().map(str::to_owned);
    match patch_suspend(&jobs, name, want, job)
        .await
        .map_err(denied)?
    {
        SuspendPatchResult::AlreadySet => print(&format!(
            "trainingjob.trellis.dev/{name} already {}\n",
            want.as_str()
        ))?,
        SuspendPatchResult::Patched => {
            if let Some(delivery) = delivery {
                warn(&format!(
                    "note: {delivery} deploys this job and may revert the change, as with selfHeal: change spec.suspend in the source of the job"
                ));
            }
            print(&format!(
                "trainingjob.trellis.dev/{name} {}\n",
                want.as_str()
            ))?
        }
        SuspendPatchResult::Rejected(reason) => {
            warn(&format!("error: {name} {reason}"));
            return Ok(Exit::Negative);
        }
    };
    if let Some(manager) = manager {
        let not_waited = if options.wait {
            ", so the command does not wait"
        } else {
            ""
        };
        warn(&format!(
            "note: {manager} manages {name} (spec.managedBy), not Trellis: {manager} decides whether it is {}{not_waited}",
            want.as_str()
        ));
        return Ok(if options.wait {
            Exit::Negative
        } else {
            Exit::Done
        });
    }
    if !options.wait {
        return Ok(Exit::Done);
    }
    let look = |job: Option<&TrainingJob>| match want.check_reached(job, uid.as_deref()) {
        Some(end) => ControlFlow::Break(end),
        None => ControlFlow::Continue(()),
    };
    let denied = |error: ApiFailure| site.reader.explain(error, "watch trainingjobs.trellis.dev");
    match follow(&jobs, name, options.wait_timeout.as_duration(), look)
        .await
        .map_err(denied)?
    {
        FollowResult::Reached((exit, reason)) => {
            if exit != Exit::Done {
                warn(&format!("error: {name} {reason}"));
            }
            Ok(exit)
        }
        FollowResult::TimedOut => {
            warn(&format!(
                "error: {name} {}: `trellis status {name}` shows its state, and `trellis explain {name}` shows the cause",
                want.unreached_text()
            ));
            Ok(Exit::TimedOut)
        }
    }
}

/// The result of the request.
#[derive(Debug, PartialEq, Eq)]
enum SuspendPatchResult {
    /// The spec had this value before.
    AlreadySet,
    /// The spec was patched.
    Patched,
    /// The spec was not patched, with the reason.
    Rejected(String),
}

/// Patches the job that was read.
/// The patch fails if the job has changed since, so an ended job or another job with the same name
/// is not changed.
async fn patch_suspend(
    jobs: &Api<TrainingJob>,
    name: &str,
    want: SuspendTarget,
    mut job: TrainingJob,
) -> Result<SuspendPatchResult, ApiFailure> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let uid = job.metadata.uid.clone();
    for _ in 0..TRIES {
        if job.metadata.uid != uid {
            return Ok(SuspendPatchResult::Rejected(NAME_REUSED.to_owned()));
        }
        if let Some(reason) = ended_reason(&job) {
            return Ok(SuspendPatchResult::Rejected(reason));
        }
        if want.is_requested(&job) {
            return Ok(SuspendPatchResult::AlreadySet);
        }
        let meta = json!({"uid": uid, "resourceVersion": job.metadata.resource_version});
        let spec = json!({"suspend": want == SuspendTarget::Suspended});
        let patch = json!({"metadata": meta, "spec": spec});
        match jobs.patch(name, &params, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(SuspendPatchResult::Patched),
            // The job has changed: read it again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                match get_optional(jobs, name).await? {
                    Some(now) => job = now,
                    None => {
                        return Ok(SuspendPatchResult::Rejected("was deleted".to_owned()));
                    }
                }
            }
            Err(error) => return Err(ApiFailure::new::<TrainingJob>("patch", error)),
        }
    }
    Ok(SuspendPatchResult::Rejected(
        "could not be changed because of concurrent changes: try again".to_owned(),
    ))
}

fn ended_reason(job: &TrainingJob) -> Option<String> {
    let status = job.status.as_ref()?;
    let phase = status.phase.map_or("", JobPhase::as_str);
    status
        .has_ended()
        .then(|| format!("has ended ({phase}) and cannot run again: submit it again"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    fn job(fields: Value) -> TrainingJob {
        let mut job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": {"taskGroups": []},
        });
        for (key, value) in fields.as_object().unwrap() {
            job[key] = value.clone();
        }
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn suspend_ignores_status_of_an_older_generation() {
        let at = |generation: i64, phase: &str| {
            job(
                json!({"status": {"observedGeneration": generation, "phase": phase,
                "message": "spec.queueName"}}),
            )
        };
        let exit = |want: SuspendTarget, job: &TrainingJob| {
            let end = want.check_reached(Some(job), Some("u"));
            end.map(|(exit, _)| exit)
        };
        let (suspended, resumed) = (SuspendTarget::Suspended, SuspendTarget::Resumed);
        assert_eq!(exit(suspended, &at(2, "Suspended")), Some(Exit::Done));
        assert_eq!(exit(resumed, &at(1, "Running")), None);
        assert_eq!(exit(resumed, &at(2, "Queued")), None);
        assert_eq!(exit(resumed, &at(2, "Running")), Some(Exit::Done));
        assert_eq!(exit(suspended, &job(json!({}))), None);
        let refused = resumed.check_reached(Some(&at(2, "Refused")), Some("u"));
        assert_eq!(
            refused,
            Some((Exit::Negative, "is Refused: spec.queueName".to_owned()))
        );
    }

    #[test]
    fn wait_ends_with_a_reason_when_the_job_cannot_change() {
        let status = json!({"observedGeneration": 1, "phase": "Complete",
            "completionTime": "2026-01-01T00:00:00Z"});
        let complete = job(json!({"status": status}));
        let check = |want: SuspendTarget, job: Option<&TrainingJob>, uid| {
            want.check_reached(job, Some(uid))
                .unwrap_or_else(|| panic!("the command waits for {job:?}"))
        };
        let (exit, reason) = check(SuspendTarget::Suspended, Some(&complete), "u");
        assert_eq!((exit, reason.as_str()), (Exit::Negative, "is Complete"));
        assert_eq!(
            check(SuspendTarget::Resumed, Some(&complete), "u").0,
            Exit::Done
        );
        let (exit, reason) = check(SuspendTarget::Resumed, None, "u");
        assert_eq!(exit, Exit::Negative);
        assert!(reason.contains("deleted"), "{reason}");
        let (exit, reason) = check(SuspendTarget::Resumed, Some(&job(json!({}))), "v");
        assert_eq!((exit, reason.as_str()), (Exit::Negative, NAME_REUSED));
    }

    /// Runs `patch_suspend` against these answers of an API server, in sequence.
    /// Returns the result and the sent patches.
    async fn patch_with_answers(answers: Vec<(u16, Value)>) -> (SuspendPatchResult, Vec<Value>) {
        let (turn, sent) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
        let patches = Arc::clone(&sent);
        let serve = move |request: Request<Body>| {
            let (code, body) = answers[turn.fetch_add(1, Ordering::Relaxed)].clone();
            let patches = Arc::clone(&patches);
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                if let Ok(patch) = serde_json::from_slice(&bytes) {
                    patches.lock().unwrap().push(patch);
                }
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
            }
        };
        let client = kube::Client::new(tower::service_fn(serve), "ml");
        let jobs = Api::namespaced(client, "ml");
        let first = job(json!({}));
        let result = patch_suspend(&jobs, "llm", SuspendTarget::Suspended, first)
            .await
            .unwrap();
        let sent = sent.lock().unwrap().clone();
        (result, sent)
    }

    #[tokio::test]
    async fn changed_job_is_read_again_before_the_patch() {
        let changed = || {
            let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Failure", "message": "modified", "reason": "Conflict", "code": 409});
            (409, body)
        };
        let answer = |fields: Value| (200, serde_json::to_value(job(fields)).unwrap());
        let (result, sent) =
            patch_with_answers(vec![changed(), answer(json!({})), answer(json!({}))]).await;
        assert_eq!(result, SuspendPatchResult::Patched);
        assert_eq!(sent.len(), 2);
        assert_eq!(
            sent[0]["metadata"],
            json!({"uid": "u", "resourceVersion": "7"})
        );
        let ended =
            json!({"status": {"phase": "Failed", "completionTime": "2026-01-01T00:00:00Z"}});
        let (result, _) = patch_with_answers(vec![changed(), answer(ended)]).await;
        let SuspendPatchResult::Rejected(reason) = result else {
            panic!("{result:?}")
        };
        assert!(reason.starts_with("has ended (Failed)"), "{reason}");
        let meta = json!({"name": "llm", "uid": "v", "resourceVersion": "9"});
        let (result, _) =
            patch_with_answers(vec![changed(), answer(json!({"metadata": meta}))]).await;
        assert_eq!(result, SuspendPatchResult::Rejected(NAME_REUSED.to_owned()));
    }
}
