//! Tests of the checks of a job's objects.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trellis_api::job::CompiledObject;

use trellis_api::TrainingJob;

use super::{ChildState, check_object};

/// A client whose API server answers with this status and object.
fn client(code: u16, object: Value) -> Client {
    let answer = move |_: Request<Body>| {
        let body = serde_json::to_vec(&object).unwrap();
        async move {
            let answer = Response::builder().status(code).body(Body::from(body));
            Ok::<_, std::io::Error>(answer.unwrap())
        }
    };
    Client::new(tower::service_fn(answer), "ml")
}

#[tokio::test]
async fn child_is_present_missing_foreign_or_forbidden() {
    let child: CompiledObject =
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret",
        "name": "llm-ssh-u", "hash": "h", "ready": true}))
        .unwrap();
    let own: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "ml", "uid": "u-1"}, "spec": {"taskGroups": []}}))
    .unwrap();
    let meta = |uid: &str| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {
            "name": "llm-ssh-u", "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1",
                "kind": "TrainingJob", "name": "llm", "uid": uid, "controller": true}]}})
    };
    let status = |code: u16| {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "r", "code": code})
    };
    for (code, answer, state) in [
        (200, meta("u-1"), ChildState::There),
        (200, meta("u-2"), ChildState::NotOurs),
        (404, status(404), ChildState::Missing),
        (403, status(403), ChildState::Forbidden),
        (500, status(500), ChildState::Unread),
    ] {
        let line = check_object(&client(code, answer), "ml", &own, &child).await;
        assert_eq!(line.state, state, "{code}");
    }
}
