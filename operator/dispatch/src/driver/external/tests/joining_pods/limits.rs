//! Limits of QuotaPolicies on pods that join a gang.

use super::*;

/// A limit on the number of jobs counts the gang once. A limit on the size of a job counts all pods
/// of the gang.
#[tokio::test]
async fn joining_pod_counts_in_the_job_limits_of_its_gang() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(member_pod("a"), &[]);
    fixture.limit(json!({"runningJobs": 1, "queuedJobs": 0}));
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    assert_eq!(
        fixture.used_gpus(),
        (8, 0),
        "{}",
        fixture.written_reason(&external::pod_gang_key(&key("b")))
    );

    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(member_pod("a"), &[]);
    fixture.limit(json!({"gpusPerJob": 6}));
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (4, 0), "the limit is 6");
    let reason = fixture.written_reason(&external::pod_gang_key(&key("b")));
    assert_eq!(reason, "QuotaPolicyExceeded: ");
}

/// GPU-hours count GPUs, regardless of the pod's controller.
#[tokio::test]
async fn external_pods_draw_gpu_hours() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    fixture.add_placed_group(json!({}));
    fixture.see_bound(member_pod("a"), &[]);
    fixture.add_pod(pod("alone", json!({})));
    fixture.decide();
    let usage: Vec<i128> = fixture
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(usage, [8]);
}

/// Each single pod is within the limit.
#[tokio::test]
async fn job_limit_covers_all_joining_pods_together() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(one_gpu_pod("a"), &[]);
    fixture.limit(json!({"gpusPerJob": 3}));
    fixture.decide();
    for name in ["b", "c", "d"] {
        fixture.add_pod(one_gpu_pod(name));
    }
    fixture.decide();
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (3, 0), "the limit is 3");
    let absent_keys = ["b", "c", "d"].map(|name| external::pod_gang_key(&key(name)));
    let mut absent_keys = absent_keys
        .iter()
        .filter(|unit| fixture.engine_state(unit) == EngineState::Absent);
    let refused_key = absent_keys.next().unwrap().clone();
    assert!(absent_keys.next().is_none());
    assert_eq!(
        fixture.written_reason(&refused_key),
        "QuotaPolicyExceeded: "
    );
    // A pod that is being deleted does not count, so the scheduler rechecks a refused pod, which
    // often replaces the deleted pod.
    let mut deleted_pod = one_gpu_pod("a");
    deleted_pod.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    let names = ["b", "c", "d"].into_iter();
    for name in names.filter(|name| external::pod_gang_key(&key(name)) != refused_key) {
        fixture.see_bound(one_gpu_pod(name), &[]);
        let context = fixture.driver.committer.context().clone();
        context.send_event(SchedulerEvent::TaskEnded(
            external::pod_gang_key(&key(name)),
            TaskOutcome::Done,
        ));
    }
    fixture.decide();
    fixture.see_bound(deleted_pod, &[]);
    fixture.decide();
    assert_eq!(fixture.engine_state(&refused_key), EngineState::Placed);
}
