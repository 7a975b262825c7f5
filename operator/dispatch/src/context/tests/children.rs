//! Pods of jobs, and other children.

use std::collections::HashSet;

use trellis_gang::observed::{
    BindingAnnotations, FlavorsByResource, SlimConfigMap, SlimNetworkPolicy,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn job_is_requeued_when_its_pod_loses_its_owner() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.requeued_jobs().await;
    let orphan: SlimPod = decoded(json!({
        "metadata": {"name": "j-worker-0", "namespace": "a", "uid": "pod-of-j"},
        "spec": {"nodeName": "n0"},
        "status": {"phase": "Running"},
    }));
    case.sink.apply(Key::from_meta(&orphan.metadata), orphan);
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(
        case.context
            .cache
            .pods
            .pods_of_job(&Key::new("a", "j"))
            .is_empty()
    );
}

/// An answer of the API server shows that a pod is gone, and Trellis creates the next pod of its
/// name. The watch shows the deletion of the first pod later.
#[tokio::test(start_paused = true)]
async fn late_watch_event_spares_the_next_pod_of_the_name() {
    let mut case = ContextFixture::new();
    case.pod("j", "n0");
    let (key, job) = (Key::new("a", "j-worker-0"), Key::new("a", "j"));
    assert!(case.context.cache.pods.delete(&key, "pod-of-j").is_some());
    let next_pod = ContextFixture::pod_of("j", "n1", "next", "Pending");
    assert!(case.context.cache.pods.insert_created(&key, &next_pod));
    case.events.take_all();

    let ended = ContextFixture::pod_of("j", "n0", "pod-of-j", "Failed");
    case.sink.apply(key.clone(), ended);
    Sink::<SlimPod>::delete(case.sink.as_ref(), &key, "pod-of-j");
    let events = case.events.take_all();
    assert!(events.is_empty(), "the scheduler gets {events:?}");
    assert_eq!(
        case.context.cache.pods.pods_of_job(&job)["j-worker-0"].uid,
        "next"
    );

    // The events include the deletion of the new pod and of a foreign pod.
    for (name, uid) in [("j-worker-0", "next"), ("foreign", "f")] {
        let key = Key::new("a", name);
        Sink::<SlimPod>::delete(case.sink.as_ref(), &key, uid);
        let events = case.events.take_all();
        assert!(
            matches!(events.first(), Some(SchedulerEvent::PodGone(pod)) if *pod == key),
            "{events:?}"
        );
    }
    assert!(case.context.cache.pods.pods_of_job(&job).is_empty());
}

/// The cache removes an object that only an answer of the API server has shown, if a later list
/// lacks the object.
#[tokio::test(start_paused = true)]
async fn object_missing_from_a_list_is_forgotten() {
    fn delete_ghosts<K>(sink: &WatchSink, version: u64) -> Vec<(Key, String)>
    where
        WatchSink: Sink<K>,
    {
        let unlisted = Sink::<K>::unlisted_objects(sink, &HashSet::new(), version);
        for (key, uid) in &unlisted {
            Sink::<K>::delete(sink, key, uid);
        }
        unlisted
    }
    let mut case = ContextFixture::new();
    let context = case.context.clone();
    let (key, pod) = (Key::new("a", "j"), Key::new("a", "j-worker-0"));
    let meta = json!({"name": "j", "namespace": "a", "uid": "u", "resourceVersion": "5"});
    let spec = json!({"minMember": 1, "queueName": "q", "priority": 0, "groups": []});
    let object = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": meta, "spec": spec});
    let plain_object = json!({"metadata": meta});
    context
        .cache
        .pod_groups
        .insert_returned(key.clone(), decoded(object));
    context
        .cache
        .services
        .insert_returned(key.clone(), decoded(plain_object.clone()));
    context
        .cache
        .network_policies
        .insert_returned(key.clone(), decoded(plain_object.clone()));
    let config_map = Key::new("a", "j-hosts");
    context
        .cache
        .config_maps
        .insert_returned(config_map, decoded(plain_object));
    let mut created = ContextFixture::pod_of("j", "n0", "u", "Pending");
    created.metadata.resource_version = Some("5".to_owned());
    assert!(context.cache.pods.insert_created(&pod, &created));

    for (version, gone) in [(4, 0), (5, 1), (6, 0)] {
        let sink = case.sink.as_ref();
        for forgotten in [
            delete_ghosts::<PodGroup>(sink, version),
            delete_ghosts::<SlimService>(sink, version),
            delete_ghosts::<SlimNetworkPolicy>(sink, version),
            delete_ghosts::<SlimConfigMap>(sink, version),
            delete_ghosts::<SlimPod>(sink, version),
        ] {
            assert_eq!(forgotten.len(), gone, "{version}: {forgotten:?}");
        }
    }
    assert!(context.cache.pod_groups.is_empty() && context.cache.services.is_empty());
    assert!(context.cache.network_policies.is_empty() && context.cache.config_maps.is_empty());
    assert!(!context.cache.pods.contains(&pod));
    let events = case.events.take_all();
    let is_pod_gone =
        |event: &SchedulerEvent| matches!(event, SchedulerEvent::PodGone(gone) if *gone == pod);
    assert!(events.iter().any(is_pod_gone), "{events:?}");
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
}

/// A watch event from before the binding may arrive after the answer to the binding. It must not
/// free the node for other gangs.
#[tokio::test(start_paused = true)]
async fn bound_pod_keeps_its_node_despite_a_late_watch_event() {
    let mut case = ContextFixture::new();
    let key = Key::new("a", "p");
    let pod = |priority: i32, node: Option<&str>| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "p"},
            "spec": {"schedulerName": "trellis", "priority": priority, "nodeName": node},
        }))
    };
    let reports_pod_gone = |case: &mut ContextFixture| {
        let events = case.events.take_all();
        events
            .iter()
            .any(|event| matches!(event, SchedulerEvent::PodGone(_)))
    };
    case.sink.apply(key.clone(), pod(1, None));
    assert!(reports_pod_gone(&mut case), "the pod has no node yet");
    let annotations = BindingAnnotations {
        plan: "plan",
        queue: "queue",
        placed_with: None,
        flavors: &FlavorsByResource::new(),
    };
    case.context
        .cache
        .external_pods
        .record_binding(&key, "p", "n0", annotations, |_| {});
    case.sink.apply(key.clone(), pod(2, None));
    assert!(!reports_pod_gone(&mut case));
    case.sink.apply(key.clone(), pod(2, Some("n0")));
    let events = case.events.take_all();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, SchedulerEvent::Pod { .. })),
        "{events:?}"
    );
    Sink::<SlimPod>::delete(case.sink.as_ref(), &key, "p");
    assert!(reports_pod_gone(&mut case));
}
