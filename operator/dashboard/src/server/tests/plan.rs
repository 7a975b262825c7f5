//! Plans, in front of an API server that plans jobs.

use super::*;

/// Questions that an API server has got: the path and the names of the jobs.
type Questions = Arc<Mutex<Vec<(String, Vec<String>)>>>;

/// A client whose API server lets each job run on node `gpu-0`, unless the caller may not read
/// nodes.
fn planning_client(sees_nodes: bool) -> (Client, Questions) {
    let questions = Questions::default();
    let asked = questions.clone();
    let answer = move |request: Request<kube::client::Body>| {
        let asked = asked.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let mut plan: Value = serde_json::from_slice(&body).unwrap();
            let jobs = plan["spec"]["jobs"].as_array().unwrap().clone();
            let named = |job: &Value| job["metadata"]["name"].as_str().unwrap().to_owned();
            let names = jobs.iter().map(named).collect();
            let question = (head.uri.path().to_owned(), names);
            asked.lock().push(question);
            let planned = jobs.iter().map(|job| planned_job(job, sees_nodes));
            plan["status"] =
                json!({"time": "2026-01-01T10:00:00Z", "jobs": planned.collect::<Vec<_>>()});
            let body = kube::client::Body::from(serde_json::to_vec(&plan).unwrap());
            Ok::<_, std::io::Error>(Response::new(body))
        }
    };
    (Client::new(tower::service_fn(answer), "ml"), questions)
}

fn planned_job(job: &Value, sees_nodes: bool) -> Value {
    let mut group = json!({"name": "worker", "pods": 2});
    if sees_nodes {
        group["nodes"] = json!([{"node": "gpu-1", "pods": 1}, {"node": "gpu-0", "pods": 1}]);
    }
    json!({"namespace": job["metadata"]["namespace"], "name": job["metadata"]["name"],
        "verdict": "Runs", "queue": "research", "priority": 0, "taskGroups": [group], "nodes": 2})
}

fn job(metadata: &str) -> String {
    format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{{metadata}}}\n\
        spec: {{taskGroups: [{{name: worker, replicas: 2, image: a.example/train:1, \
        resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}\n"
    )
}

async fn plan(scene: &Scene, body: Value) -> (StatusCode, Value) {
    let link = scene.links.create_code().unwrap();
    let (_, opened) = open(scene, &link).await;
    let request = request(Method::POST, "/api/plan")
        .header("content-type", "application/json")
        .header("trellis-key", opened["key"].as_str().unwrap());
    let request = request.body(Body::from(body.to_string())).unwrap();
    let (status, _, body) = send(&scene.router, request).await;
    (status, body)
}

#[tokio::test]
async fn plan_has_the_jobs_in_the_order_of_the_text() {
    let (client, questions) = planning_client(true);
    let yaml = [
        job("name: a, namespace: other"),
        job("name: b"),
        job("name: c, namespace: other"),
    ];
    let scene = local(client);
    let (status, body) = plan(&scene, json!({"yaml": yaml.join("---\n")})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let prefix = "/apis/visibility.trellis.dev/v1alpha1/namespaces";
    assert_eq!(
        *questions.lock(),
        [
            (
                format!("{prefix}/other/plans"),
                vec!["a".to_owned(), "c".to_owned()]
            ),
            // The context has the namespace `ml`.
            (format!("{prefix}/ml/plans"), vec!["b".to_owned()]),
        ]
    );
    let names: Vec<_> = (0..3).map(|at| body["jobs"][at]["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let first = &body["jobs"][0];
    assert_eq!(first["verdict"], "would run");
    assert_eq!(first["runs"], true);
    assert_eq!(first["nodes"], json!(["gpu-0", "gpu-1"]));
    assert_eq!(
        first["sections"][0],
        json!({"name": "queue", "lines": ["research, priority 0"]})
    );
    assert!(body["notes"][0].as_str().unwrap().contains("planned apart"));
    assert_eq!(body["problems"], json!([]));
}

#[tokio::test]
async fn namespace_of_the_request_is_for_jobs_that_name_none() {
    let (client, questions) = planning_client(false);
    let body = json!({"namespace": "team", "yaml": job("name: a")});
    let (status, body) = plan(&local(client), body).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(questions.lock()[0].0.ends_with("/namespaces/team/plans"));
    let job = &body["jobs"][0];
    assert_eq!(job["nodes"], json!([]), "the user may not read nodes");
    assert_eq!(
        job["sections"][1]["lines"],
        json!(["worker: 2 pods", "2 pods on 2 nodes"])
    );
}

#[tokio::test]
async fn problems_of_a_text_are_answered_without_the_cluster() {
    let (client, questions) = planning_client(true);
    let scene = local(client);
    let body = json!({"namespace": "ml", "yaml": job("name: Large")});
    let (status, body) = plan(&scene, body).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["jobs"], json!([]));
    let problem = &body["problems"][0];
    assert_eq!(
        (&problem["line"], &problem["field"]),
        (&json!(3), &json!("metadata.name"))
    );
    assert!(problem["snippet"].as_str().unwrap().contains("Large"));
    for wrong in [
        json!({"namespace": "ML", "yaml": ""}),
        json!({"namespace": "", "yaml": ""}),
        json!({"yaml": "", "more": 1}),
        json!({"yaml": "a".repeat(300 << 10)}),
    ] {
        let (status, body) = plan(&scene, wrong).await;
        assert_eq!(body["error"]["kind"], "invalid", "{status}");
    }
    assert!(questions.lock().is_empty());
}

#[tokio::test]
async fn missing_right_to_plan_is_named() {
    let denied = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "plans.visibility.trellis.dev is forbidden", "reason": "Forbidden", "code": 403});
    let scene = local(client(403, denied));
    let (status, body) = plan(&scene, json!({"yaml": job("name: a")})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(body["error"]["kind"], "denied");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("create plans.visibility.trellis.dev"),
        "{message}"
    );
    assert!(message.contains("trellis-edit"), "{message}");
}

#[tokio::test]
async fn operator_that_answers_too_few_jobs_is_a_fault() {
    let short = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Plan",
        "metadata": {}, "spec": {"jobs": []},
        "status": {"time": "2026-01-01T10:00:00Z", "jobs": []}});
    let scene = local(client(200, short));
    let (status, body) = plan(&scene, json!({"yaml": job("name: a")})).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
}

/// A page behind a proxy has no kubeconfig, whose context would name a namespace.
#[tokio::test]
async fn page_behind_a_proxy_needs_a_namespace() {
    let cluster = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let credentials = ForwardedCredentials::new(cluster, Duration::from_millis(100));
    let url = "https://trellis.example.org".parse().unwrap();
    let router = Dashboard::behind_proxy(credentials, url, |_: &str| {}).router();
    let ask = async |token: Option<&str>, body: Value| {
        let mut request = Request::post("/api/plan")
            .header("host", "trellis.example.org")
            .header("origin", "https://trellis.example.org")
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let (status, _, body) = send(&router, request).await;
        (status, body)
    };
    let (status, body) = ask(None, json!({"yaml": job("name: a")})).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
    let (status, body) = ask(Some("token"), json!({"yaml": job("name: a")})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["problems"][0]["field"], "metadata.namespace");
    let body = json!({"namespace": "ml", "yaml": job("name: a")});
    let (status, body) = ask(Some("token"), body).await;
    // The cluster is asked, and does not exist.
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{body}");
}
