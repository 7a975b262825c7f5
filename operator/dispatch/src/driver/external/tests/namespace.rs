//! The namespace of external pods. Its watch may lag behind the watch of pods.

use super::*;

fn forget_namespace(fixture: &ExternalPodsFixture) {
    let namespace = Key::new("", "team-a");
    Sink::<SlimNamespace>::delete(fixture.sink.as_ref(), &namespace, "team-a");
}

#[tokio::test]
async fn external_pod_waits_until_the_watch_shows_its_namespace() {
    let mut fixture = ExternalPodsFixture::new();
    forget_namespace(&fixture);
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({})));
    fixture.decide_without_task_results();
    assert_eq!(fixture.used_gpus(), (0, 0));
    assert!(
        fixture.written_reason(&unit).contains("CacheNotReady"),
        "{}",
        fixture.written_reason(&unit)
    );
    fixture.namespace(json!({}));
    fixture.recheck(&unit);
    assert_eq!(fixture.used_gpus(), (4, 0));
}

#[tokio::test]
async fn bound_external_pod_is_charged_once_the_watch_shows_its_namespace() {
    let mut fixture = ExternalPodsFixture::new();
    forget_namespace(&fixture);
    fixture.limit(json!({"resources": [{"resource": GPU, "max": 4}]}));
    fixture.see_bound(pod("bound", json!({})), &[]);
    fixture.decide_without_task_results();
    fixture.namespace(json!({}));
    fixture.recheck(&external::pod_gang_key(&key("bound")));
    fixture.add_pod(pod("p", json!({})));
    fixture.decide_without_task_results();
    assert_eq!(fixture.used_gpus(), (4, 0), "the limit of 4 is used up");
}
