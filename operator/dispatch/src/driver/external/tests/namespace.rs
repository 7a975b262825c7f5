//! The namespace of external pods: its watch may lag behind the watch of pods.

use super::*;

fn forget_namespace(scene: &ExternalPodsFixture) {
    let namespace = Key::new("", "team-a");
    Sink::<SlimNamespace>::delete(scene.sink.as_ref(), &namespace, "team-a");
}

#[tokio::test]
async fn external_pod_waits_until_the_watch_shows_its_namespace() {
    let mut scene = ExternalPodsFixture::new();
    forget_namespace(&scene);
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({})));
    scene.decide_without_task_results();
    assert_eq!(scene.used_gpus(), (0, 0));
    assert!(
        scene.written_reason(&unit).contains("CacheNotReady"),
        "{}",
        scene.written_reason(&unit)
    );
    scene.namespace(json!({}));
    scene.recheck(&unit);
    assert_eq!(scene.used_gpus(), (4, 0));
}

#[tokio::test]
async fn bound_external_pod_is_charged_once_the_watch_shows_its_namespace() {
    let mut scene = ExternalPodsFixture::new();
    forget_namespace(&scene);
    scene.limit(json!({"resources": [{"resource": GPU, "max": 4}]}));
    scene.see_bound(pod("bound", json!({})), &[]);
    scene.decide_without_task_results();
    scene.namespace(json!({}));
    scene.recheck(&external::pod_gang_key(&key("bound")));
    scene.add_pod(pod("p", json!({})));
    scene.decide_without_task_results();
    assert_eq!(scene.used_gpus(), (4, 0), "the limit of 4 is used up");
}
