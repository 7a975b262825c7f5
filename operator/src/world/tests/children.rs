//! Pods of jobs, and other children.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_job_whose_pod_loses_its_owner_is_looked_at() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.looked_at().await;
    let orphan: SlimPod = decoded(json!({
        "metadata": {"name": "j-worker-0", "namespace": "a", "uid": "pod-of-j"},
        "spec": {"nodeName": "n0"},
        "status": {"phase": "Running"},
    }));
    case.watched.apply(Key::of(&orphan.metadata), orphan);
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.world.pods.of(&Key::new("a", "j")).is_empty());
}

/// An answer says that a pod is gone, and the next of its name is created, while the watch still
/// shows the end of the first.
#[tokio::test(start_paused = true)]
async fn a_late_watch_does_not_touch_the_next_pod_of_a_name() {
    let mut case = Case::new();
    case.pod("j", "n0");
    let (key, job) = (Key::new("a", "j-worker-0"), Key::new("a", "j"));
    assert!(case.world.pods.delete(&key, "pod-of-j").is_some());
    let next = Case::pod_of("j", "n1", "next", "Pending");
    assert!(case.world.pods.created(&key, &next));
    case.heard.take();

    let ended = Case::pod_of("j", "n0", "pod-of-j", "Failed");
    case.watched.apply(key.clone(), ended);
    Sink::<SlimPod>::delete(case.watched.as_ref(), &key, "pod-of-j");
    let told = case.heard.take();
    assert!(told.is_empty(), "the scheduler is told {told:?}");
    assert_eq!(case.world.pods.of(&job)["j-worker-0"].uid, "next");

    // Its own end is told, and so is that of a pod that is nobody's.
    for (name, uid) in [("j-worker-0", "next"), ("foreign", "f")] {
        let key = Key::new("a", name);
        Sink::<SlimPod>::delete(case.watched.as_ref(), &key, uid);
        let told = case.heard.take();
        assert!(
            matches!(told.first(), Some(Feed::PodGone(pod)) if *pod == key),
            "{told:?}"
        );
    }
    assert!(case.world.pods.of(&job).is_empty());
}
