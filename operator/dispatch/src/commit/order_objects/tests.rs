use std::convert::Infallible;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use trellis_gang::DesiredGang;
use trellis_gang::fixtures::desired_run;
use trellis_gang::observed::UnhealthyRules;

use super::*;
use crate::commands::Commands;
use crate::context::Context;
use crate::leader::Leadership;

/// The objects of orders on the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stored {
    /// Number of Jobs.
    jobs: usize,
    /// Number of ProvisioningRequests.
    requests: usize,
    /// Number of pods. One disappears with each list.
    pods: usize,
}

fn list_of(count: usize) -> Value {
    let item = json!({"metadata": {"name": "p", "labels": {}}, "spec": {}, "status": {}});
    json!({"metadata": {}, "items": vec![item; count]})
}

fn request_object() -> Value {
    json!({
        "metadata": {"name": "llm-0", "namespace": "team-a", "uid": "r",
            "labels": {"capacity.trellis.dev/order": "o", "capacity.trellis.dev/job-uid": "u",
                "capacity.trellis.dev/flavor": "deleted"},
            "annotations": {"capacity.trellis.dev/job": "team-a/llm"}},
        "spec": {"podSets": [], "provisioningClassName": "a"},
    })
}

/// Returns an API server with these objects. The watch shows none of them.
fn client_with(stored: Arc<Mutex<Stored>>) -> Client {
    let api = tower::service_fn(move |request: Request<Body>| {
        let stored = stored.clone();
        async move {
            let mut stored = stored.lock();
            let path = request.uri().path();
            let is_of_jobs = path.ends_with("/jobs");
            if path.contains("/provisioningrequests") {
                let answer = match request.method() == Method::DELETE {
                    true => {
                        stored.requests = stored.requests.saturating_sub(1);
                        json!({"kind": "Status", "status": "Success"})
                    }
                    false => {
                        json!({"metadata": {}, "items": vec![request_object(); stored.requests]})
                    }
                };
                return Ok(Response::new(Body::from(answer.to_string().into_bytes())));
            }
            let answer = match (request.method() == Method::DELETE, is_of_jobs) {
                (true, true) => {
                    stored.jobs = 0;
                    list_of(0)
                }
                (false, true) => list_of(stored.jobs),
                _ => {
                    let pods = stored.pods;
                    stored.pods = pods.saturating_sub(1);
                    list_of(pods)
                }
            };
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    Client::new(api, "default")
}

/// Withdraws the order of a gang, and returns the placeholders that are left.
async fn withdraw(stored: Stored) -> Stored {
    let stored = Arc::new(Mutex::new(stored));
    let namespace = Some("capacity".to_owned());
    let (context, _events) = Context::with_settings(UnhealthyRules::default(), namespace);
    let commands = Commands::new(client_with(stored.clone()), Leadership::for_test());
    let committer = Committer::new(context, commands);
    let DesiredGang::Run(run) = desired_run(1) else {
        panic!()
    };
    let job = Key::new("team-a", "llm");
    let withdrawn = committer.withdraw_order(&job, &run, Timestamp::MAX).await;
    assert!(withdrawn.is_ok(), "{withdrawn:?}");
    *stored.lock()
}

/// The Job controller is slow. It would create the pods beside those of the gang.
#[tokio::test(start_paused = true)]
async fn placeholder_job_without_pods_is_deleted() {
    assert_eq!(
        withdraw(Stored {
            jobs: 1,
            ..Stored::default()
        })
        .await,
        Stored::default()
    );
}

#[tokio::test(start_paused = true)]
async fn placeholders_that_the_watch_has_not_shown_are_awaited() {
    assert_eq!(
        withdraw(Stored {
            jobs: 1,
            pods: 3,
            ..Stored::default()
        })
        .await,
        Stored::default()
    );
}

/// Otherwise Cluster Autoscaler would serve the request beside the pods of the gang.
#[tokio::test(start_paused = true)]
async fn request_of_a_deleted_flavor_is_deleted() {
    assert_eq!(
        withdraw(Stored {
            requests: 1,
            ..Stored::default()
        })
        .await,
        Stored::default()
    );
}
