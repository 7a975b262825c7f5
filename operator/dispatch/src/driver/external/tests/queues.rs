//! The queue of an external gang.

use super::*;

/// Returns a pod of the gang that names a queue by its label.
fn labelled(name: &str, queue: &str) -> SlimPod {
    let labels = json!({"trellis.dev/pod-group": "g", "trellis.dev/queue": queue});
    pod(name, labels)
}

impl ExternalPodsFixture {
    /// Creates a driver with another queue besides the default one.
    fn with_second_queue() -> Self {
        let scene = Self::new();
        let elsewhere: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "elsewhere"},
            "spec": {"namespaceSelector": {}},
        }));
        scene.sink.apply(Key::new("", "elsewhere"), elsewhere);
        scene
    }

    /// Adds a PodGroup whose gang waits, if all of its pods exist.
    fn add_waiting_group(&self, members: u32, queue: &str) {
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": members, "queueName": queue},
        }));
        self.sink.apply(key("g"), group);
    }
}

#[tokio::test]
async fn queue_comes_from_the_pods_when_the_pod_group_names_none() {
    let mut scene = ExternalPodsFixture::with_second_queue();
    scene.add_waiting_group(2, "");
    // An unfilled template names no queue.
    scene.add_pod(labelled("a", ""));
    scene.add_pod(labelled("b", "elsewhere"));
    scene.decide();
    let unit = external::pod_group_gang_key(&key("g"));
    assert_eq!(scene.engine_state(&unit), EngineState::Placed);
    assert_eq!(scene.charged_queue(&unit).as_deref(), Some("elsewhere"));

    let mut scene = ExternalPodsFixture::with_second_queue();
    let alone = json!({"trellis.dev/queue": ""});
    scene.add_pod(pod("alone", alone));
    scene.decide();
    let unit = external::pod_gang_key(&key("alone"));
    assert_eq!(scene.charged_queue(&unit).as_deref(), Some("default"));
}

#[tokio::test]
async fn gang_naming_two_queues_is_refused() {
    for (group, first, second) in [("", "default", "elsewhere"), ("default", "", "elsewhere")] {
        let mut scene = ExternalPodsFixture::with_second_queue();
        scene.add_waiting_group(2, group);
        scene.add_pod(labelled("a", first));
        scene.add_pod(labelled("b", second));
        scene.decide();
        let unit = external::pod_group_gang_key(&key("g"));
        assert_eq!(scene.charged_queue(&unit), None, "{group:?}");
        let told = scene.written_reason(&unit);
        assert!(told.starts_with("InvalidSpec"), "{told}");
    }
}

/// The gang stays in its queue even if the label changes, so that lost pods can be replaced.
#[tokio::test]
async fn joining_pod_stays_in_the_queue_of_its_gang() {
    let mut scene = ExternalPodsFixture::with_second_queue();
    scene.add_placed_group(json!({}));
    scene.see_bound(pod("a", json!({"trellis.dev/pod-group": "g"})), &[]);
    scene.decide();
    scene.add_pod(labelled("b", "elsewhere"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(scene.engine_state(&unit), EngineState::Placed);
    assert_eq!(scene.charged_queue(&unit).as_deref(), Some("default"));
}
