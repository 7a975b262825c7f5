//! Victims of external pods.

use super::nominated_pod::preempting_queue;
use super::*;

impl ExternalPodsFixture {
    /// Like [`ExternalPodsFixture::new`], with this many GPUs on the node, and a queue in which
    /// priority preempts.
    fn with_priority_preemption(gpus: usize) -> Self {
        let fixture = Self::new();
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: gpus.to_string(), "pods": "9999"}},
        }));
        fixture.sink.apply(Key::new("", "n0"), node);
        fixture.queue("default", preempting_queue());
        fixture
    }

    /// Adds a placed pod of priority 0 with one GPU.
    fn add_low_priority_pod(&self, name: &str) {
        let mut pod = pod_with(name, json!({}), json!({"nodeName": "n0"}), 1);
        let annotations = [("trellis.dev/placed-in".to_owned(), "default".to_owned())];
        pod.metadata.annotations = Some(annotations.into());
        self.add_pod(pod);
    }

    fn is_nominated(&self, unit: &Key) -> bool {
        self.driver.external_engine_state(unit) == EngineState::Nominated
    }
}

fn pod_with(name: &str, labels: Value, spec: Value, gpus: usize) -> SlimPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": labels},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: gpus.to_string()}, "limits": {GPU: gpus.to_string()}}}]},
        "status": {"phase": "Pending"},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    decoded(pod)
}

/// A nomination names its victims in one object, which limits their number. A gang that needs more
/// victims is postponed.
#[tokio::test]
async fn preemptor_with_too_many_victims_is_postponed() {
    let too_many = trellis_api::pod_group::MAX_VICTIMS + 1;
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 1},
    }));
    for (labels, unit) in [
        (json!({}), external::pod_gang_key(&key("high"))),
        (
            json!({"trellis.dev/pod-group": "g"}),
            external::pod_group_gang_key(&key("g")),
        ),
    ] {
        let mut fixture = ExternalPodsFixture::with_priority_preemption(too_many);
        fixture.sink.apply(key("g"), group.clone());
        for number in 0..too_many {
            fixture.add_low_priority_pod(&format!("low-{number}"));
        }
        fixture.decide_without_task_results();
        fixture.add_pod(pod_with("high", labels, json!({"priority": 9}), too_many));
        fixture.decide_without_task_results();
        assert!(!fixture.is_nominated(&unit));
        assert!(fixture.driver.leaving.is_empty(), "no victim is evicted");
        let state = &fixture.driver.external_pods.gangs[&unit];
        match external::parse_gang_key(&unit) {
            Some(ExternalGangRef::Pod(_)) => assert!(state.retry_at.is_some()),
            // The running write postpones the gang. It writes no reason for waiting.
            _ => assert!(state.task.is_some() && state.conditions.status_write.is_none()),
        }
    }
}

/// A PriorityClass of the pods may forbid preemption. The PriorityClass of the PodGroup takes
/// precedence.
#[tokio::test]
async fn gang_with_a_never_preempting_class_waits() {
    let policy = |policy: &str| json!({"priority": 9, "preemptionPolicy": policy});
    let (never, lower) = (policy("Never"), policy("PreemptLowerPriority"));
    for (class, specs, preempts) in [
        (None, [&lower, &lower], true),
        (None, [&lower, &never], false),
        (Some("Never"), [&lower, &lower], false),
        (Some("PreemptLowerPriority"), [&never, &never], true),
    ] {
        let mut fixture = ExternalPodsFixture::with_priority_preemption(2);
        let mut group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 2},
        }));
        if let Some(policy) = class {
            group.spec.priority_class_name = Some("high".to_owned());
            let class: k8s_openapi::api::scheduling::v1::PriorityClass = decoded(json!({
                "metadata": {"name": "high", "uid": "high"}, "value": 9, "preemptionPolicy": policy,
            }));
            fixture.sink.apply(Key::new("", "high"), class);
        }
        fixture.sink.apply(key("g"), group);
        fixture.add_low_priority_pod("low-0");
        fixture.add_low_priority_pod("low-1");
        fixture.decide_without_task_results();
        for (name, spec) in ["a", "b"].into_iter().zip(specs) {
            let labels = json!({"trellis.dev/pod-group": "g"});
            fixture.add_pod(pod_with(name, labels, spec.clone(), 1));
        }
        fixture.decide_without_task_results();
        let unit = external::pod_group_gang_key(&key("g"));
        assert_eq!(fixture.is_nominated(&unit), preempts, "{class:?} {specs:?}");
    }
}
