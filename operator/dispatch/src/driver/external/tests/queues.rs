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
        let fixture = Self::new();
        fixture.queue("elsewhere", json!({"namespaceSelector": {}}));
        fixture
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
    let mut fixture = ExternalPodsFixture::with_second_queue();
    fixture.add_waiting_group(2, "");
    // An empty label names no queue.
    fixture.add_pod(labelled("a", ""));
    fixture.add_pod(labelled("b", "elsewhere"));
    fixture.decide();
    let unit = external::pod_group_gang_key(&key("g"));
    assert_eq!(fixture.engine_state(&unit), EngineState::Placed);
    assert_eq!(fixture.charged_queue(&unit).as_deref(), Some("elsewhere"));

    let mut fixture = ExternalPodsFixture::with_second_queue();
    let labels = json!({"trellis.dev/queue": ""});
    fixture.add_pod(pod("alone", labels));
    fixture.decide();
    let unit = external::pod_gang_key(&key("alone"));
    assert_eq!(fixture.charged_queue(&unit).as_deref(), Some("default"));
}

#[tokio::test]
async fn gang_naming_two_queues_is_refused() {
    for (group, first, second) in [("", "default", "elsewhere"), ("default", "", "elsewhere")] {
        let mut fixture = ExternalPodsFixture::with_second_queue();
        fixture.add_waiting_group(2, group);
        fixture.add_pod(labelled("a", first));
        fixture.add_pod(labelled("b", second));
        fixture.decide();
        let unit = external::pod_group_gang_key(&key("g"));
        assert_eq!(fixture.charged_queue(&unit), None, "{group:?}");
        let reason = fixture.written_reason(&unit);
        assert!(reason.starts_with("InvalidSpec"), "{reason}");
    }
}

/// A pod with another queue label joins the gang in its queue, so that it can replace a lost pod.
#[tokio::test]
async fn joining_pod_stays_in_the_queue_of_its_gang() {
    let mut fixture = ExternalPodsFixture::with_second_queue();
    fixture.add_placed_group(json!({}));
    fixture.see_bound(pod("a", json!({"trellis.dev/pod-group": "g"})), &[]);
    fixture.decide();
    fixture.add_pod(labelled("b", "elsewhere"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(fixture.engine_state(&unit), EngineState::Placed);
    assert_eq!(fixture.charged_queue(&unit).as_deref(), Some("default"));
}
