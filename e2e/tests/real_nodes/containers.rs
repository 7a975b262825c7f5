//! Container states as a real kubelet reports them.

use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::message;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// Returns a job of one pod without GPUs and without restarts.
fn single_pod_job(place: &TrialNamespace, name: &str, command: &[&str]) -> Value {
    let mut job = place.job_running(name, 1, command);
    job["spec"]["restart"] = json!({"limit": 0});
    let group = &mut job["spec"]["taskGroups"][0];
    group["gpus"] = json!(0);
    group["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
    job
}

pub(crate) async fn test_failure_reasons(
    _: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    place.create_program("unused", "").await;
    let eats = single_pod_job(
        &place,
        "eats",
        &["python3", "-c", "print(len(b'x' * (1 << 28)))"],
    );
    let mut root = single_pod_job(&place, "root", &["true"]);
    root["spec"]["taskGroups"][0]["podTemplate"] =
        json!({"spec": {"securityContext": {"runAsNonRoot": true}}});
    let mut key = single_pod_job(&place, "key", &["true"]);
    key["spec"]["taskGroups"][0]["env"] = json!([{
        "name": "A", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "absent"}}}]);
    let fails = single_pod_job(&place, "fails", &["sh", "-c", "echo no data; exit 3"]);
    for job in [eats, root, key, fails] {
        place.create(job).await.unwrap();
    }

    let eats = place.wait_for_phase("eats", JobPhase::Failed).await;
    let failure = eats.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "OOMKilled", "{failure:?}");
    assert_eq!(failure.exit_code, Some(137), "{failure:?}");

    let fails = place.wait_for_phase("fails", JobPhase::Failed).await;
    let failure = fails.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.exit_code, Some(3), "{failure:?}");
    assert_eq!(failure.last_line.as_deref(), Some("no data"));

    let root = place.wait_for_phase("root", JobPhase::Failed).await;
    assert!(message(&root).contains("root"), "{root:#?}");

    let key = place
        .wait_for_status("key", |s| s.last_failure.is_some())
        .await;
    let failure = key.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "ContainerConfigError", "{failure:?}");
    let last_line = failure.last_line.unwrap();
    assert!(last_line.contains("absent"), "{last_line}");
    TrialOutcome::Passed
}
