use serde_json::{Value, json};

use super::*;

/// Returns a time in the hour of the test.
fn at(minute: u32) -> String {
    format!("2026-01-01T00:{minute:02}:00Z")
}

fn ended_status(name: &str, minute: u32) -> Value {
    json!({"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": at(minute)}}})
}

fn running_status(name: &str, minute: u32, restarts: u32) -> Value {
    json!({"name": name, "restartCount": restarts, "state": {"running": {"startedAt": at(minute)}}})
}

fn no_image(name: &str) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": "ImagePullBackOff"}}})
}

/// Returns the time from which the container with the obstacle could have started. The init
/// container `s` is a sidecar.
fn earliest_start_of(
    inits: &[&str],
    init_statuses: &[Value],
    mains: &[Value],
    more_status: Value,
) -> Option<String> {
    let inits = inits.iter().map(|name| match *name {
        "s" => json!({"name": name, "restartPolicy": "Always"}),
        _ => json!({"name": name}),
    });
    let mut status = json!({
        "phase": "Pending", "startTime": at(0),
        "initContainerStatuses": init_statuses, "containerStatuses": mains,
    });
    let more_status = more_status.as_object().unwrap().clone();
    status.as_object_mut().unwrap().extend(more_status);
    let pod = json!({
        "metadata": {"name": "j-worker-0"},
        "spec": {"initContainers": inits.collect::<Vec<_>>(), "containers": [{"name": "main"}]},
        "status": status,
    });
    let obstacle = find_start_obstacle(&serde_json::from_value(pod).unwrap()).unwrap();
    assert_eq!(obstacle.kind, StartObstacleKind::Image);
    Some(obstacle.since?.to_string())
}

#[test]
fn init_container_can_start_when_the_previous_one_ends() {
    let none = || json!({});
    let waiting = || json!({"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}});
    let first = earliest_start_of(&["a", "b"], &[no_image("a")], &[waiting()], none());
    assert_eq!(first, Some(at(0)));
    // Statuses are not in the order of the containers.
    let second = [no_image("b"), ended_status("a", 20)];
    let second = earliest_start_of(&["a", "b"], &second, &[waiting()], none());
    assert_eq!(second, Some(at(20)));
    let third = [ended_status("a", 10), ended_status("b", 20), no_image("c")];
    let third = earliest_start_of(&["a", "b", "c"], &third, &[waiting()], none());
    assert_eq!(third, Some(at(20)));
}

#[test]
fn container_after_a_sidecar_can_start_once_the_sidecar_runs() {
    let start_after =
        |sidecar: Value| earliest_start_of(&["s", "b"], &[sidecar, no_image("b")], &[], json!({}));
    assert_eq!(start_after(running_status("s", 7, 0)), Some(at(7)));
    // A sidecar that restarts again and again must not delay that time.
    assert_eq!(start_after(running_status("s", 7, 1)), Some(at(0)));
}

#[test]
fn main_containers_can_start_once_the_pod_is_initialized() {
    let condition = |status: &str| {
        json!({"conditions": [
            {"type": "Initialized", "status": status, "lastTransitionTime": at(31)},
        ]})
    };
    let start_after = |more: Value| {
        earliest_start_of(&["a"], &[ended_status("a", 30)], &[no_image("main")], more)
    };
    assert_eq!(start_after(condition("True")), Some(at(31)));
    // The kubelet has not reported it yet.
    assert_eq!(start_after(condition("False")), Some(at(30)));
    assert_eq!(start_after(json!({})), Some(at(30)));
    let without_init = earliest_start_of(&[], &[], &[no_image("main")], json!({}));
    assert_eq!(without_init, Some(at(0)));
}
