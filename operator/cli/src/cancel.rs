//! `trellis cancel`: ends a job and deletes it, like Slurm's `scancel`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use trellis_api::{Delivery, TrainingJob};
use trellis_reads::report::pods_of_job;
use trellis_reads::{ApiFailure, get_optional, list};

use crate::cluster::{FollowResult, follow};
use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::{NamespaceOptions, TargetNamespace, for_each_job};
use crate::wait_options::WaitTimeout;

/// Options of `trellis cancel`.
#[derive(clap::Args, Clone, Debug)]
pub struct CancelOptions {
    /// The jobs: NAME or tj/NAME.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Wait until the last pod has stopped.
    #[arg(long)]
    wait: bool,
    /// Timeout of `--wait`.
    #[command(flatten)]
    wait_timeout: WaitTimeout,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Cancels the jobs.
///
/// # Errors
/// If a name is invalid, or the cluster cannot be reached.
pub fn run(options: &CancelOptions) -> anyhow::Result<ExitCode> {
    for_each_job(&options.target, &options.jobs, async |site, name| {
        cancel_job(site, name, options).await
    })
}

async fn cancel_job(
    site: &TargetNamespace,
    name: &str,
    options: &CancelOptions,
) -> anyhow::Result<Exit> {
    let jobs = site.reader.jobs();
    let denied = |error: ApiFailure| {
        site.reader
            .explain(error, "get and delete trainingjobs.trellis.dev")
    };
    let Some(job) = get_optional(&jobs, name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.reader.not_found_error(name)));
        return Ok(Exit::Negative);
    };
    if let Some(by) = Delivery::from_metadata(&job.metadata) {
        warn(&format!(
            "note: {by} deploys this job and may create it again: remove the job from its source"
        ));
    }
    if !delete(&jobs, name, &job).await.map_err(denied)? {
        warn(&format!(
            "error: {name} is a new job now and was not cancelled: the original job was deleted, and another one was created with its name"
        ));
        return Ok(Exit::Negative);
    }
    print(&format!(
        "trainingjob.trellis.dev/{name} cancelled{}\n",
        describe_grace(&job)
    ))?;
    if !options.wait {
        return Ok(Exit::Done);
    }
    let uid = job.metadata.uid.clone();
    let look = |job: Option<&TrainingJob>| match job {
        // A new job with the same name is a different job, so this job is gone.
        Some(job) if job.metadata.uid == uid => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let denied = |error: ApiFailure| site.reader.explain(error, "watch trainingjobs.trellis.dev");
    match follow(&jobs, name, options.wait_timeout.as_duration(), look)
        .await
        .map_err(denied)?
    {
        FollowResult::Reached(()) => Ok(Exit::Done),
        FollowResult::TimedOut => {
            let remaining = describe_remaining(site, &job).await;
            warn(&format!("error: {name} still exists{remaining}"));
            Ok(Exit::TimedOut)
        }
    }
}

/// Describes how long the pods of the job have to save their state.
fn describe_grace(job: &TrainingJob) -> String {
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

/// Deletes this job.
/// Returns false if a job with another uid has the name now. The other job is not deleted.
async fn delete(
    jobs: &Api<TrainingJob>,
    name: &str,
    job: &TrainingJob,
) -> Result<bool, ApiFailure> {
    // With foreground deletion the job exists until its pods have stopped. So a client that waits
    // for the job also waits for its pods.
    let params = DeleteParams::foreground().preconditions(Preconditions {
        uid: job.metadata.uid.clone(),
        resource_version: None,
    });
    match jobs.delete(name, &params).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(ApiFailure::new::<TrainingJob>("delete", error)),
    }
}

async fn describe_remaining(site: &TargetNamespace, job: &TrainingJob) -> String {
    let pods: Api<Pod> = Api::namespaced(site.cluster.client().clone(), &site.reader.namespace);
    match list(&pods, &pods_of_job(job)).await {
        Ok(Some(pods)) if !pods.is_empty() => {
            let listed: Vec<_> = pods
                .iter()
                .take(3)
                .filter_map(|pod| pod.metadata.name.clone())
                .collect();
            format!(
                ": {} pods are still stopping, such as {}",
                pods.len(),
                listed.join(", ")
            )
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the result of `delete` if a job with this uid has the name.
    async fn is_deleted(existing_uid: Option<&'static str>) -> bool {
        let serve = move |request: Request<Body>| async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let options: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(options["propagationPolicy"], "Foreground");
            let code: u16 = match existing_uid {
                None => 404,
                Some(uid) if options["preconditions"]["uid"] == uid => 200,
                Some(_) => 409,
            };
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": if code == 200 { "Success" } else { "Failure" }, "code": code});
            let body = Body::from(status.to_string().into_bytes());
            Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
        };
        let client = kube::Client::new(tower::service_fn(serve), "ml");
        let job = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "uid": "u"}, "spec": {"taskGroups": []}});
        let job = serde_json::from_value(job).unwrap();
        let jobs = Api::namespaced(client, "ml");
        delete(&jobs, "llm", &job).await.unwrap()
    }

    #[tokio::test]
    async fn cancel_deletes_the_job_it_read_and_no_successor() {
        assert!(is_deleted(Some("u")).await);
        assert!(!is_deleted(Some("v")).await);
        assert!(
            is_deleted(None).await,
            "a missing job must count as deleted"
        );
    }
}
