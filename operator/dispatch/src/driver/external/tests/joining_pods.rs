//! Pods that join a placed gang.

mod domain;
mod flavors;
mod limits;

use std::time::Duration;

use super::*;

fn member_pod(name: &str) -> SlimPod {
    pod(name, json!({"trellis.dev/pod-group": "g"}))
}

/// Returns a pod of one GPU.
fn one_gpu_pod(name: &str) -> SlimPod {
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name,
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}]},
        "status": {"phase": "Pending"},
    }))
}

/// A placed gang keeps its queue and priority, even if the PodGroup has changed.
#[tokio::test]
async fn joining_pod_takes_queue_and_priority_from_the_plan() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.queue("elsewhere", json!({"namespaceSelector": {}}));
    fixture.add_placed_group(json!({"queue": "elsewhere", "priority": 7}));
    fixture.see_bound(member_pod("a"), &[("trellis.dev/placed-in", "elsewhere")]);
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(fixture.engine_state(&unit), EngineState::Placed);
    let request = fixture.driver.external_pods.gangs[&unit]
        .request
        .clone()
        .unwrap();
    assert_eq!((&*request.queue, request.priority), ("elsewhere", 7));
}

/// The driver updates a gang in the engine at most every two seconds, even if many pods join it.
#[tokio::test(start_paused = true)]
async fn joined_pods_are_merged_into_the_gang_together() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.add_placed_group(json!({}));
    fixture.see_bound(one_gpu_pod("a"), &[]);
    fixture.decide();
    let allocation_count =
        |fixture: &ExternalPodsFixture| fixture.driver.external_pods.gangs[&unit].allocations.len();
    let single_key = |name: &str| external::pod_gang_key(&key(name));
    for (name, expected) in [("b", 2), ("c", 2), ("d", 2)] {
        fixture.add_pod(one_gpu_pod(name));
        fixture.decide();
        assert_eq!(fixture.engine_state(&single_key(name)), EngineState::Placed);
        // The pod's task would have bound it.
        fixture.see_bound(one_gpu_pod(name), &[]);
        let context = fixture.driver.committer.context().clone();
        context.send_event(SchedulerEvent::TaskEnded(
            single_key(name),
            TaskOutcome::Done,
        ));
        fixture.decide();
        fixture.decide();
        assert_eq!(allocation_count(&fixture), expected, "{name}");
    }
    assert_eq!(fixture.used_gpus(), (4, 0));
    assert_eq!(fixture.engine_state(&single_key("d")), EngineState::Placed);
    tokio::time::advance(Duration::from_secs(2)).await;
    fixture.recheck(&unit);
    assert_eq!(
        (allocation_count(&fixture), fixture.used_gpus()),
        (4, (4, 0))
    );
    assert!(
        !fixture
            .driver
            .external_pods
            .gangs
            .contains_key(&single_key("d"))
    );
}

/// Pods that are created while the gang's pods stop form the next gang.
#[tokio::test]
async fn pod_does_not_join_a_terminating_gang() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(member_pod("a"), &[]);
    fixture.decide();
    let recreated_pod = |name: &str| {
        let mut pod = member_pod(name);
        pod.metadata.uid = Some(format!("{name}-2"));
        pod
    };
    // Another pod waits for capacity, and was submitted before.
    fixture.add_pod(pod("else", json!({})));
    fixture.decide();
    fixture.add_pod(recreated_pod("b"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(fixture.engine_state(&unit), EngineState::Waiting);
    let mut deleted_pod = member_pod("a");
    deleted_pod.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    fixture.see_bound(deleted_pod, &[]);
    fixture.add_pod(recreated_pod("c"));
    fixture.decide();
    for name in ["b", "c"] {
        let unit = external::pod_gang_key(&key(name));
        assert_eq!(fixture.engine_state(&unit), EngineState::Absent, "{name}");
    }
}

/// If the pod counted as older than its gang, it could preempt its own gang in a queue that
/// preempts later gangs.
#[tokio::test]
async fn joining_pod_is_submitted_no_earlier_than_its_gang_was_placed() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({"deadline": "2027-01-15T08:02:00Z"}));
    let pod_created_at = |name: &str, created: &str| {
        let mut pod = one_gpu_pod(name);
        pod.metadata.creation_timestamp = Some(decoded(json!(created)));
        pod
    };
    fixture.see_bound(pod_created_at("a", "2027-01-15T07:59:00Z"), &[]);
    fixture.decide();
    fixture.add_pod(pod_created_at("b", "2027-01-15T07:00:00Z"));
    fixture.decide();
    let request = fixture.driver.external_pods.gangs[&external::pod_gang_key(&key("b"))]
        .request
        .clone();
    let placed: k8s_openapi::jiff::Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    assert_eq!(request.unwrap().submitted, placed);
}

/// Users can change the label, so the gang of a bound pod comes from the annotation of its binding.
#[tokio::test]
async fn changed_label_does_not_add_a_bound_pod_to_a_gang() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({"priority": 9}));
    fixture.see_bound(member_pod("a"), &[]);
    fixture.decide();
    fixture.see_bound(member_pod("stray"), &[("trellis.dev/placed-with", "other")]);
    fixture.decide();
    assert_eq!(
        fixture.engine_state(&external::pod_gang_key(&key("stray"))),
        EngineState::Placed
    );
    let gang = &fixture.driver.external_pods.gangs[&external::pod_group_gang_key(&key("g"))];
    assert_eq!(gang.allocations.len(), 1);
    assert_eq!(fixture.used_gpus(), (8, 0));
}

/// The pod is being preempted. If it were part of the gang, the whole gang would have to leave.
#[tokio::test(start_paused = true)]
async fn terminating_pod_is_not_merged_into_its_gang() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(one_gpu_pod("a"), &[]);
    fixture.decide();
    let single_key = external::pod_gang_key(&key("b"));
    fixture.add_pod(one_gpu_pod("b"));
    fixture.decide();
    let mut deleted_pod = one_gpu_pod("b");
    deleted_pod.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    fixture.see_bound(deleted_pod, &[]);
    let context = fixture.driver.committer.context().clone();
    context.send_event(SchedulerEvent::TaskEnded(
        single_key.clone(),
        TaskOutcome::Done,
    ));
    fixture.decide();
    tokio::time::advance(Duration::from_secs(5)).await;
    fixture.recheck(&external::pod_group_gang_key(&key("g")));
    assert_eq!(fixture.engine_state(&single_key), EngineState::Placed);
    let gang = &fixture.driver.external_pods.gangs[&external::pod_group_gang_key(&key("g"))];
    assert_eq!(gang.allocations.len(), 1);
}

/// A user has bound pod a to a node, so the PodGroup has no place that pod b could join.
#[tokio::test]
async fn pod_does_not_join_a_gang_without_a_place() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({"queue": null}));
    let mut bound_by_user = member_pod("a");
    bound_by_user.spec.node_name = Some("n0".to_owned());
    fixture.add_pod(bound_by_user);
    fixture.limit(json!({"gpusPerJob": 3}));
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(fixture.written_reason(&unit), "QuotaPolicyExceeded: ");
    fixture.limit(json!({"runningJobs": 1}));
    fixture.recheck(&unit);
    let state = &fixture.driver.external_pods.gangs[&unit];
    assert_eq!(
        (state.engine_state, state.joins_placed_gang),
        (EngineState::Placed, false)
    );
}
