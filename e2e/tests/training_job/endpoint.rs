//! Data that only the engine has, for users with the right to it: positions, numbers and expected
//! starts of all pending jobs, and snapshots of the whole state.

use std::process::Command;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::endpoint;
use trellis_e2e::operator::{self, SNAPSHOTS_FOLDER};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;
use trellis_server::endpoint::{WaitingJob, WaitingJobs};

use super::{create_site, shared_control_plane};

const WAITING_PATH: &str = "/v1alpha1/waiting";
const SNAPSHOT_PATH: &str = "/v1alpha1/snapshot";

/// Sends a request with a bearer token, and returns the status code and the JSON of the response.
async fn get_json(token: Option<&str>, path: &str) -> (StatusCode, Value) {
    let (code, text) = get_text(token, path).await;
    (code, serde_json::from_str(&text).unwrap())
}

/// Sends a request with a bearer token, and returns the status code and the text of the response.
async fn get_text(token: Option<&str>, path: &str) -> (StatusCode, String) {
    let address = operator::shared_operator()
        .unwrap()
        .wait_for_endpoint()
        .await
        .unwrap();
    let server = format!("https://{address}");
    endpoint::send_request(&server, token, path).await.unwrap()
}

async fn get_status(token: Option<&str>, path: &str) -> u16 {
    let (code, body) = get_json(token, path).await;
    if code != StatusCode::OK {
        // Errors have the format of the API server's, with a message.
        assert_eq!(body["kind"], "Status", "{body}");
        assert_eq!(body["code"], code.as_u16(), "{body}");
        assert!(!body["message"].as_str().unwrap().is_empty(), "{body}");
    }
    code.as_u16()
}

/// Creates a ServiceAccount of the site's namespace, with or without the right to list jobs there.
/// Returns its token.
async fn create_account_token(site: &TestSite, name: &str, may_list: bool) -> String {
    let control_plane = shared_control_plane().await;
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
    })];
    if may_list {
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": ["trellis.dev"], "resources": ["trainingjobs"], "verbs": ["list"]}],
        }));
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": site.name()}],
        }));
    }
    for object in objects {
        let yaml = object.to_string();
        let applied = control_plane.apply_yaml_in(site.name(), &yaml).await;
        applied.unwrap();
    }
    let token = control_plane.service_account_token(site.name(), name);
    token.await.unwrap()
}

async fn wait_for_pending_job(token: &str, path: &str, name: &str) -> anyhow::Result<WaitingJob> {
    let (code, body) = get_json(Some(token), path).await;
    ensure!(code == StatusCode::OK, "{code}: {body}");
    let waiting_jobs: WaitingJobs = serde_json::from_value(body)?;
    let found = waiting_jobs.waiting.into_iter().find(|w| w.name == name);
    found.with_context(|| format!("the endpoint does not list {name}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_explains_pending_jobs_to_users_with_list_right() {
    let site = create_site("endpoint", 1).await;
    let mut running = site.job("runs", 1, 8);
    running["spec"]["deadlines"] = json!({"activeSeconds": 3600});
    site.create(running).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    let started = Timestamp::now();
    for (name, gpus) in [("head", 8), ("large", 9)] {
        site.submit(name, 1, gpus).await;
        site.wait_for_phase(name, JobPhase::Queued).await;
    }

    let namespace = site.name();
    let own = format!("{WAITING_PATH}?namespace={namespace}");
    let lister = create_account_token(&site, "lister", true).await;
    let listed = eventually(SOON, || async {
        // The API server may not have read the new role yet.
        let head = wait_for_pending_job(&lister, &own, "head").await?;
        // The operator computes expected starts in the background.
        ensure!(head.expected_start.is_some(), "{head:?}");
        Ok(head)
    });
    let head = listed.await.unwrap();
    assert_eq!(head.namespace, namespace);
    assert_eq!(head.reason, Reason::InsufficientCapacity);
    assert!(head.message.contains("nvidia.com/gpu"), "{}", head.message);
    let hour = SignedDuration::from_hours(1);
    let start = head.expected_start.expect("the expected start is known");
    // The expected start includes the start time and the grace period of the pods.
    let delay = start.duration_since(started);
    assert!(hour <= delay && delay < hour * 2, "{delay}");
    let large = wait_for_pending_job(&lister, &own, "large").await.unwrap();
    assert_eq!(large.expected_start, None);
    assert!(head.position < large.position);

    // Pending jobs of other namespaces, or of all namespaces, need further rights.
    assert_eq!(get_status(None, &own).await, 401);
    assert_eq!(get_status(Some("no token"), &own).await, 401);
    assert_eq!(get_status(Some(&lister), WAITING_PATH).await, 403);
    assert_eq!(
        get_status(Some(&lister), "/v1alpha1/waiting?namespace=default").await,
        403
    );
    assert_eq!(get_status(Some(&lister), SNAPSHOT_PATH).await, 403);
    let without_rights = create_account_token(&site, "nobody", false).await;
    assert_eq!(get_status(Some(&without_rights), &own).await, 403);
    let admin = shared_control_plane().await.admin_token();
    wait_for_pending_job(admin, WAITING_PATH, "head")
        .await
        .unwrap();
    for (path, expected) in [
        ("/", 404),
        ("/v1alpha1/waiting/x", 404),
        ("/v1alpha1/waiting?queue=x", 400),
        ("/v1alpha1/waiting?namespace=nowhere", 200),
    ] {
        assert_eq!(get_status(Some(admin), path).await, expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_is_written_on_request_and_replayed() {
    let site = create_site("snapshot", 1).await;
    site.submit("large", 1, 9).await;
    site.wait_for_phase("large", JobPhase::Queued).await;
    let control_plane = shared_control_plane().await;
    let (code, body) = get_json(Some(control_plane.admin_token()), SNAPSHOT_PATH).await;
    assert_eq!(code, StatusCode::OK);
    let downloaded = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(downloaded.path(), body.to_string()).unwrap();

    let folder = control_plane.folder().join(SNAPSHOTS_FOLDER);
    let operator = operator::shared_operator()
        .unwrap()
        .process_id()
        .to_string();
    let signal = Command::new("kill").args(["-USR1", &operator]).status();
    assert!(signal.unwrap().success());
    let written = eventually(SOON, || async {
        let mut files = std::fs::read_dir(&folder)?.flatten().map(|f| f.path());
        let written = files.find(|f| f.extension().is_some_and(|e| e == "json"));
        written.context("no snapshot is written")
    });
    for file in [downloaded.path().to_owned(), written.await.unwrap()] {
        let replay = || {
            let program = env!("CARGO_BIN_EXE_trellis-under-test");
            let output = Command::new(program)
                .arg("replay")
                .arg(&file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let replayed = replay();
        let job = format!("{}/large", site.name());
        assert!(replayed.contains(&job), "{replayed}");
        assert_eq!(replay(), replayed, "the replays differ");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_need_a_right_and_health_needs_none() {
    let site = create_site("metrics", 1).await;
    site.submit("runs", 1, 8).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let health = operator::shared_operator()
        .unwrap()
        .wait_for_health_address()
        .await
        .unwrap();
    for path in ["/livez", "/readyz"] {
        let answer = endpoint::send_request(&format!("http://{health}"), None, path).await;
        let (code, text) = answer.unwrap();
        assert_eq!(code, StatusCode::OK, "{text}");
        assert!(
            text.ends_with(&format!("{} check passed\n", &path[1..])),
            "{text}"
        );
    }
    let metrics = "/metrics";
    assert_eq!(get_status(None, metrics).await, 401);
    let without_rights = create_account_token(&site, "nobody", false).await;
    assert_eq!(get_status(Some(&without_rights), metrics).await, 403);
    let name = format!("{}-scraper", site.name());
    let rules = json!([{"nonResourceURLs": [metrics], "verbs": ["get"]}]);
    let kinds = [
        json!({"kind": "ClusterRole", "rules": rules}),
        json!({"kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": site.name()}]}),
    ];
    for mut object in kinds {
        object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        object["metadata"] = json!({"name": name});
        let control_plane = shared_control_plane().await;
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let metrics_text = eventually(SOON, || async {
        let (code, text) = get_text(Some(&without_rights), metrics).await;
        anyhow::ensure!(code == StatusCode::OK, "{code}: {text}");
        Ok(text)
    });
    let metrics_text = metrics_text.await.unwrap();
    for line in ["trellis_leader 1.0", "trellis_caches_synced 1.0"] {
        assert!(
            metrics_text.lines().any(|l| l == line),
            "{line}: {metrics_text}"
        );
    }
    for start in [
        "trellis_queue_wait_duration_seconds_count{queue=\"default\"} ",
        "trellis_devices{resource=\"nvidia.com/gpu\",state=\"held\"} ",
        "trellis_watch_age_seconds{resource=\"pods\"} ",
        "trellis_gang_start_duration_seconds_count ",
    ] {
        assert!(
            metrics_text.lines().any(|l| l.starts_with(start)),
            "{start}: {metrics_text}"
        );
    }
    assert!(!metrics_text.contains(&format!("namespace=\"{}", site.name())));
}
