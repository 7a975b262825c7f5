use serde_json::{Value, json};

use super::*;

/// A time in the hour of the test.
fn at(minute: u32) -> String {
    format!("2026-01-01T00:{minute:02}:00Z")
}

fn ended(name: &str, minute: u32) -> Value {
    json!({"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": at(minute)}}})
}

fn runs(name: &str, minute: u32, restarts: u32) -> Value {
    json!({"name": name, "restartCount": restarts, "state": {"running": {"startedAt": at(minute)}}})
}

fn no_image(name: &str) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": "ImagePullBackOff"}}})
}

/// Time from which the stuck container could have started. The init container `s` is a sidecar.
fn since(inits: &[&str], init_statuses: &[Value], mains: &[Value], more: Value) -> Option<String> {
    let inits = inits.iter().map(|name| match *name {
        "s" => json!({"name": name, "restartPolicy": "Always"}),
        _ => json!({"name": name}),
    });
    let mut status = json!({
        "phase": "Pending", "startTime": at(0),
        "initContainerStatuses": init_statuses, "containerStatuses": mains,
    });
    let more = more.as_object().unwrap().clone();
    status.as_object_mut().unwrap().extend(more);
    let pod = json!({
        "metadata": {"name": "j-worker-0"},
        "spec": {"initContainers": inits.collect::<Vec<_>>(), "containers": [{"name": "main"}]},
        "status": status,
    });
    let stuck = stuck(&serde_json::from_value(pod).unwrap()).unwrap();
    assert_eq!(stuck.obstacle, Obstacle::Image);
    Some(stuck.since?.to_string())
}

#[test]
fn an_image_is_waited_for_from_when_its_container_was_to_start() {
    let none = || json!({});
    let waiting = || json!({"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}});
    let first = since(&["a", "b"], &[no_image("a")], &[waiting()], none());
    assert_eq!(first, Some(at(0)));
    // Statuses are not in the order of the containers.
    let second = [no_image("b"), ended("a", 20)];
    let second = since(&["a", "b"], &second, &[waiting()], none());
    assert_eq!(second, Some(at(20)));
    let third = [ended("a", 10), ended("b", 20), no_image("c")];
    let third = since(&["a", "b", "c"], &third, &[waiting()], none());
    assert_eq!(third, Some(at(20)));
}

#[test]
fn behind_a_sidecar_the_next_is_to_start_once_that_runs() {
    let of = |sidecar: Value| since(&["s", "b"], &[sidecar, no_image("b")], &[], json!({}));
    assert_eq!(of(runs("s", 7, 0)), Some(at(7)));
    // A sidecar that restarts again and again must not delay that time.
    assert_eq!(of(runs("s", 7, 1)), Some(at(0)));
}

#[test]
fn the_main_containers_are_to_start_once_the_pod_is_initialized() {
    let condition = |status: &str| {
        json!({"conditions": [
            {"type": "Initialized", "status": status, "lastTransitionTime": at(31)},
        ]})
    };
    let of = |more: Value| since(&["a"], &[ended("a", 30)], &[no_image("main")], more);
    assert_eq!(of(condition("True")), Some(at(31)));
    // The kubelet has not reported it yet.
    assert_eq!(of(condition("False")), Some(at(30)));
    assert_eq!(of(json!({})), Some(at(30)));
    let alone = since(&[], &[], &[no_image("main")], json!({}));
    assert_eq!(alone, Some(at(0)));
}
