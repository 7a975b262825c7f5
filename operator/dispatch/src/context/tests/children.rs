//! Pods of jobs, and other children.

use std::collections::HashSet;

use trellis_gang::observed::{BoundBy, Flavors, SlimConfigMap, SlimNetworkPolicy};

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
    assert!(case.context.cache.pods.of(&Key::new("a", "j")).is_empty());
}

/// An answer says that a pod is gone, and the next of its name is created, while the watch still
/// shows the end of the first.
#[tokio::test(start_paused = true)]
async fn a_late_watch_does_not_touch_the_next_pod_of_a_name() {
    let mut case = Case::new();
    case.pod("j", "n0");
    let (key, job) = (Key::new("a", "j-worker-0"), Key::new("a", "j"));
    assert!(case.context.cache.pods.delete(&key, "pod-of-j").is_some());
    let next = Case::pod_of("j", "n1", "next", "Pending");
    assert!(case.context.cache.pods.created(&key, &next));
    case.heard.take();

    let ended = Case::pod_of("j", "n0", "pod-of-j", "Failed");
    case.watched.apply(key.clone(), ended);
    Sink::<SlimPod>::delete(case.watched.as_ref(), &key, "pod-of-j");
    let told = case.heard.take();
    assert!(told.is_empty(), "the scheduler is told {told:?}");
    assert_eq!(case.context.cache.pods.of(&job)["j-worker-0"].uid, "next");

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
    assert!(case.context.cache.pods.of(&job).is_empty());
}

/// Each kind of which an answer may show an object first forgets it when a list does not show it.
#[tokio::test(start_paused = true)]
async fn what_came_and_went_behind_a_broken_watch_is_forgotten() {
    fn listed<K>(watched: &WatchSink, version: u64) -> Vec<(Key, String)>
    where
        WatchSink: Sink<K>,
    {
        let gone = Sink::<K>::ghosts(watched, &HashSet::new(), version);
        for (key, uid) in &gone {
            Sink::<K>::delete(watched, key, uid);
        }
        gone
    }
    let mut case = Case::new();
    let context = case.context.clone();
    let (key, pod) = (Key::new("a", "j"), Key::new("a", "j-worker-0"));
    let meta = json!({"name": "j", "namespace": "a", "uid": "u", "resourceVersion": "5"});
    let spec = json!({"minMember": 1, "queueName": "q", "priority": 0, "groups": []});
    let object = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": meta, "spec": spec});
    let plain = json!({"metadata": meta});
    context.cache.pod_groups.found(key.clone(), decoded(object));
    context
        .cache
        .services
        .found(key.clone(), decoded(plain.clone()));
    context
        .cache
        .network_policies
        .found(key.clone(), decoded(plain.clone()));
    let hosts = Key::new("a", "j-hosts");
    context.cache.config_maps.found(hosts, decoded(plain));
    let mut created = Case::pod_of("j", "n0", "u", "Pending");
    created.metadata.resource_version = Some("5".to_owned());
    assert!(context.cache.pods.created(&pod, &created));

    for (version, gone) in [(4, 0), (5, 1), (6, 0)] {
        let watched = case.watched.as_ref();
        for forgotten in [
            listed::<PodGroup>(watched, version),
            listed::<SlimService>(watched, version),
            listed::<SlimNetworkPolicy>(watched, version),
            listed::<SlimConfigMap>(watched, version),
            listed::<SlimPod>(watched, version),
        ] {
            assert_eq!(forgotten.len(), gone, "{version}: {forgotten:?}");
        }
    }
    assert!(context.cache.pod_groups.is_empty() && context.cache.services.is_empty());
    assert!(context.cache.network_policies.is_empty() && context.cache.config_maps.is_empty());
    assert!(!context.cache.pods.knows(&pod));
    let told = case.heard.take();
    let freed = |feed: &Feed| matches!(feed, Feed::PodGone(gone) if *gone == pod);
    assert!(told.iter().any(freed), "{told:?}");
    assert_eq!(case.looked_at().await, ["a/j"]);
}

/// An event from before a binding may arrive after the answer to it. Taken for the pod's end, it
/// would free the node for other gangs.
#[tokio::test(start_paused = true)]
async fn a_late_watch_does_not_take_its_node_from_a_pod_that_was_bound() {
    let mut case = Case::new();
    let key = Key::new("a", "p");
    let pod = |priority: i32, node: Option<&str>| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "p"},
            "spec": {"schedulerName": "trellis", "priority": priority, "nodeName": node},
        }))
    };
    let told_gone = |case: &mut Case| {
        let told = case.heard.take();
        told.iter().any(|feed| matches!(feed, Feed::PodGone(_)))
    };
    case.watched.apply(key.clone(), pod(1, None));
    assert!(told_gone(&mut case), "it holds nothing yet");
    let by = BoundBy {
        plan: "plan",
        queue: "queue",
        with: None,
        flavors: &Flavors::new(),
    };
    case.context
        .cache
        .external_pods
        .bound(&key, "p", "n0", by, |_| {});
    case.watched.apply(key.clone(), pod(2, None));
    assert!(!told_gone(&mut case));
    case.watched.apply(key.clone(), pod(2, Some("n0")));
    let told = case.heard.take();
    assert!(
        told.iter().any(|feed| matches!(feed, Feed::Pod { .. })),
        "{told:?}"
    );
    Sink::<SlimPod>::delete(case.watched.as_ref(), &key, "p");
    assert!(told_gone(&mut case));
}
