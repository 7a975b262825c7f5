//! The queue of an external gang.

use super::*;

/// A pod of the gang that names a queue by its label.
fn labelled(name: &str, queue: &str) -> SlimPod {
    let labels = json!({"trellis.dev/pod-group": "g", "trellis.dev/queue": queue});
    pod(name, labels)
}

impl Scene {
    /// With another queue beside the default one.
    fn with_elsewhere() -> Self {
        let scene = Self::new();
        let elsewhere: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "elsewhere"},
            "spec": {"namespaceSelector": {}},
        }));
        scene.watched.apply(Key::new("", "elsewhere"), elsewhere);
        scene
    }

    /// A PodGroup whose gang waits, if all of its pods exist.
    fn waits(&self, members: u32, queue: &str) {
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": members, "queueName": queue},
        }));
        self.watched.apply(key("g"), group);
    }
}

#[tokio::test]
async fn its_pods_name_it_where_the_group_does_not() {
    let mut scene = Scene::with_elsewhere();
    scene.waits(2, "");
    // A template that was not filled in names none.
    scene.see(labelled("a", ""));
    scene.see(labelled("b", "elsewhere"));
    scene.decide();
    let unit = external::of_group(&key("g"));
    assert_eq!(scene.inside(&unit), Inside::Placed);
    assert_eq!(scene.counts_in(&unit).as_deref(), Some("elsewhere"));

    let mut scene = Scene::with_elsewhere();
    let alone = json!({"trellis.dev/queue": ""});
    scene.see(pod("alone", alone));
    scene.decide();
    let unit = external::of_pod(&key("alone"));
    assert_eq!(scene.counts_in(&unit).as_deref(), Some("default"));
}

#[tokio::test]
async fn two_queues_of_one_gang_are_said() {
    for (group, first, second) in [("", "default", "elsewhere"), ("default", "", "elsewhere")] {
        let mut scene = Scene::with_elsewhere();
        scene.waits(2, group);
        scene.see(labelled("a", first));
        scene.see(labelled("b", second));
        scene.decide();
        let unit = external::of_group(&key("g"));
        assert_eq!(scene.counts_in(&unit), None, "{group:?}");
        let told = scene.told(&unit);
        assert!(told.starts_with("InvalidSpec"), "{told}");
    }
}

/// The gang stays in its queue, whatever the label names by now, so that lost pods can be replaced.
#[tokio::test]
async fn who_joins_is_where_the_gang_is_whatever_its_label_names() {
    let mut scene = Scene::with_elsewhere();
    scene.placed(json!({}));
    scene.see_bound(pod("a", json!({"trellis.dev/pod-group": "g"})), &[]);
    scene.decide();
    scene.see(labelled("b", "elsewhere"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::Placed);
    assert_eq!(scene.counts_in(&unit).as_deref(), Some("default"));
}
