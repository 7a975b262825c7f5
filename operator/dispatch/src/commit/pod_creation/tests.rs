use std::io;
use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use trellis_gang::DesiredGang;
use trellis_gang::fixtures::desired_run;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_scheduler::{GroupName, NodeName};

use super::*;
use crate::commands::Commands;
use crate::context::Context;
use crate::leader::Leadership;

/// Returns an API server that stores pods. It cancels `stop` at a create, and the connection is
/// cut before the answer.
fn client_without_answers(stop: CancellationToken) -> Client {
    let stored: Arc<Mutex<Option<Value>>> = Arc::default();
    let api = tower::service_fn(move |request: Request<Body>| {
        let (stored, stop) = (stored.clone(), stop.clone());
        async move {
            if request.method() == Method::POST {
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut pod: Value = serde_json::from_slice(&body).unwrap();
                pod["metadata"]["uid"] = json!("p");
                pod["metadata"]["resourceVersion"] = json!("1");
                *stored.lock() = Some(pod);
                stop.cancel();
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            let pod = stored.lock().clone().unwrap();
            Ok(Response::new(Body::from(pod.to_string().into_bytes())))
        }
    });
    Client::new(api, "default")
}

/// The watch of pods is late. If the pod were not known, its node would be given away.
#[tokio::test]
async fn pod_is_known_when_its_create_is_not_answered_and_its_gang_must_leave() {
    let stop = CancellationToken::new();
    let (context, _events) = Context::new();
    let client = client_without_answers(stop.clone());
    let commands = Commands::new(client, Leadership::for_test());
    let committer = Committer::new(context.clone(), commands);
    let job = Key::new("team-a", "llm");
    let DesiredGang::Run(run) = desired_run(1) else {
        panic!()
    };
    let runs = vec![(NodeName::new("n0"), 1)];
    let place = GangPlacement {
        placement: [(GroupName::new("worker"), runs)].into_iter().collect(),
        ..GangPlacement::default()
    };
    let plan = journal::build_plan(&run, &place, clock::now());
    let groups = run.job.compiled().groups();
    let templates: Vec<_> = groups.iter().map(CompiledGroup::pod_builder).collect();
    let missing = planned_members(&templates, &plan);
    let outcome = committer
        .create_pods(&job, &run, &plan, missing, &BTreeMap::new(), &stop)
        .await;
    assert!(matches!(outcome, Some(TaskOutcome::Done)), "{outcome:?}");
    assert_eq!(context.cache.pods.pods_of_job(&job).len(), 1);
}

#[test]
fn pod_requesting_more_than_counted_is_reported() {
    let stored: SlimPod = serde_json::from_value(json!({
        "metadata": {"name": "j-worker-1"},
        "spec": {"containers": [{"name": "main",
            "resources": {"requests": {"cpu": "2", "memory": "1Ki", "nvidia.com/gpu": "8"}}}]},
    }))
    .unwrap();
    let counted = |cpu, gpus| {
        let counted = Resources::new().with("cpu", cpu).with("memory", 1024);
        counted.with("nvidia.com/gpu", gpus)
    };
    assert_eq!(describe_excess_request(&stored, &counted(2000, 8)), None);
    assert_eq!(
        describe_excess_request(&stored, &counted(4000, 9)),
        None,
        "the pod requests less than counted"
    );
    let message = describe_excess_request(&stored, &counted(1500, 8)).unwrap();
    assert!(
        message.contains("\"j-worker-1\" ask for 2000m of cpu"),
        "{message}"
    );
    let message = describe_excess_request(&stored, &counted(2000, 0)).unwrap();
    assert!(message.contains("8 of nvidia.com/gpu"), "{message}");
}
