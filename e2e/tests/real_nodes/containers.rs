//! Container states as a real kubelet reports them.

use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::message;

use crate::scene::{End, Place, Scene};

/// A job of one pod without GPUs that gets no second try.
fn once(place: &Place, name: &str, command: &[&str]) -> Value {
    let mut job = place.runs(name, 1, command);
    job["spec"]["restart"] = json!({"limit": 0});
    let group = &mut job["spec"]["taskGroups"][0];
    group["gpus"] = json!(0);
    group["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
    job
}

pub(crate) async fn reasons(_: &'static Scene, place: Place) -> End {
    place.program("unused", "").await;
    let eats = once(
        &place,
        "eats",
        &["python3", "-c", "print(len(b'x' * (1 << 28)))"],
    );
    let mut root = once(&place, "root", &["true"]);
    root["spec"]["taskGroups"][0]["podTemplate"] =
        json!({"spec": {"securityContext": {"runAsNonRoot": true}}});
    let mut key = once(&place, "key", &["true"]);
    key["spec"]["taskGroups"][0]["env"] = json!([{
        "name": "A", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "absent"}}}]);
    let fails = once(&place, "fails", &["sh", "-c", "echo no data; exit 3"]);
    for job in [eats, root, key, fails] {
        place.create(job).await.unwrap();
    }

    let eats = place.reaches("eats", JobPhase::Failed).await;
    let failure = eats.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "OOMKilled", "{failure:?}");
    assert_eq!(failure.exit_code, Some(137), "{failure:?}");

    let fails = place.reaches("fails", JobPhase::Failed).await;
    let failure = fails.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.exit_code, Some(3), "{failure:?}");
    assert_eq!(failure.last_line.as_deref(), Some("no data"));

    let root = place.reaches("root", JobPhase::Failed).await;
    assert!(message(&root).contains("root"), "{root:#?}");

    let key = place.becomes("key", |s| s.last_failure.is_some()).await;
    let failure = key.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "ContainerConfigError", "{failure:?}");
    let said = failure.last_line.unwrap();
    assert!(said.contains("absent"), "{said}");
    End::Passed
}
