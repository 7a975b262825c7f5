//! The namespace of external pods: its watch may be later than that of pods.

use super::*;

fn forget_namespace(scene: &Scene) {
    let namespace = Key::new("", "team-a");
    Sink::<SlimNamespace>::delete(scene.watched.as_ref(), &namespace, "team-a");
}

#[tokio::test]
async fn external_pod_waits_until_the_watch_shows_its_namespace() {
    let mut scene = Scene::new();
    forget_namespace(&scene);
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({})));
    scene.decide_unanswered();
    assert_eq!(scene.used(), (0, 0));
    assert!(
        scene.told(&unit).contains("CacheNotReady"),
        "{}",
        scene.told(&unit)
    );
    scene.namespace(json!({}));
    scene.look(&unit);
    assert_eq!(scene.used(), (4, 0));
}

#[tokio::test]
async fn bound_external_pod_is_charged_once_the_watch_shows_its_namespace() {
    let mut scene = Scene::new();
    forget_namespace(&scene);
    scene.limit(json!({"resources": [{"resource": GPU, "max": 4}]}));
    scene.see_bound(pod("bound", json!({})), &[]);
    scene.decide_unanswered();
    scene.namespace(json!({}));
    scene.look(&external::of_pod(&key("bound")));
    scene.see(pod("p", json!({})));
    scene.decide_unanswered();
    assert_eq!(scene.used(), (4, 0), "the limit of 4 is used up");
}
