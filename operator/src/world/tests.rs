use std::time::Duration;

use kube::core::DeserializeGuard;
use serde_json::{Value, json};
use trellis_api::{Topology, TrainingJob, names};

use super::*;
use crate::watch::{GIVEN_UP_AFTER, LOST_AFTER, Sink, SlimPod};

/// A world in which nothing has happened, and the sinks into it.
struct Case {
    world: Arc<World>,
    watched: Arc<Watched>,
    heard: mpsc::UnboundedReceiver<Feed>,
}

fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

impl Case {
    fn new() -> Self {
        let (world, heard) = World::new();
        Self {
            watched: Watched::new(&world),
            world,
            heard,
        }
    }

    /// Jobs by namespace and name, each with the Services that it names; nobody looks at them.
    async fn jobs(&self, jobs: &[(&str, &str, &[&str])]) {
        for (namespace, name, services) in jobs {
            let egress: Vec<Value> = services.iter().map(|s| json!({"service": s})).collect();
            let job: TrainingJob = decoded(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}")},
                "spec": {"taskGroups": [], "network": {"egress": egress}},
            }));
            self.watched
                .apply(Key::of(job.meta()), DeserializeGuard(Ok(job)));
        }
        self.looked_at().await;
    }

    fn node(&self, name: &str, ready: &str) {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }));
        self.watched.apply(Key::new("", name), node);
    }

    fn pod(&self, job: &str, node: &str) {
        let pod = Self::pod_of(job, node, &format!("pod-of-{job}"), "Running");
        self.watched.apply(Key::of(&pod.metadata), pod);
    }

    fn pod_of(job: &str, node: &str, uid: &str, phase: &str) -> SlimPod {
        decoded(json!({
            "metadata": {
                "name": format!("{job}-worker-0"), "namespace": "a", "uid": uid,
                "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                    "name": job, "uid": format!("a-{job}"), "controller": true}],
            },
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        }))
    }

    fn service(&self, namespace: &str, name: &str, labels: Value) {
        let service: SlimService = decoded(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": "s", "labels": labels},
        }));
        self.watched.apply(Key::new(namespace, name), service);
    }

    fn namespace(&self, meta: Value) {
        let mut meta = meta;
        meta["name"] = json!("a");
        meta["uid"] = json!("a");
        let namespace: SlimNamespace = decoded(json!({"metadata": meta}));
        self.watched.apply(Key::new("", "a"), namespace);
    }

    /// Everything has been listed, and nodes are looked after.
    fn sync(&self) {
        for _ in 0..WATCHES {
            self.world.one_synced();
        }
        tokio::spawn(self.world.clone().tell_of_lost_nodes());
    }

    /// The jobs that are due within the next tenth of a second.
    async fn looked_at(&self) -> Vec<String> {
        let mut jobs = Vec::new();
        let due = || tokio::time::timeout(Duration::from_millis(100), self.world.work.next());
        while let Ok(job) = due().await {
            self.world.work.done(&job);
            jobs.push(job.to_string());
        }
        jobs.sort();
        jobs
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_when_we_started_is_told_of_when_it_is_lost_and_when_it_is_given_up() {
    let case = Case::new();
    case.jobs(&[("a", "down", &[]), ("a", "up", &[])]).await;
    case.node("n0", "Unknown");
    case.node("n1", "True");
    case.pod("down", "n0");
    case.pod("up", "n1");
    case.sync();
    case.looked_at().await;
    assert!(!case.world.is_lost("n0"));
    tokio::time::sleep(LOST_AFTER).await;
    assert!(case.world.is_lost("n0"));
    assert_eq!(case.looked_at().await, ["a/down"]);
    assert!(!case.world.is_given_up("n0"));
    tokio::time::sleep(GIVEN_UP_AFTER - LOST_AFTER).await;
    assert!(case.world.is_given_up("n0"));
    assert_eq!(case.looked_at().await, ["a/down"]);
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert!(case.looked_at().await.is_empty());
    assert!(!case.world.is_lost("n1"));
}

#[tokio::test(start_paused = true)]
async fn when_most_nodes_are_back_the_jobs_on_the_others_are_looked_at() {
    let case = Case::new();
    for i in 0..10 {
        case.node(&format!("n{i}"), "True");
    }
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.looked_at().await;
    for i in 0..6 {
        case.node(&format!("n{i}"), "Unknown");
    }
    tokio::time::sleep(2 * GIVEN_UP_AFTER).await;
    case.looked_at().await;
    assert!(!case.world.is_lost("n0"), "we are cut off");
    for i in 2..6 {
        case.node(&format!("n{i}"), "True");
    }
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.world.is_lost("n0"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_we_never_saw_are_given_up_in_the_end() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "gone-before-us");
    case.sync();
    case.looked_at().await;
    assert!(case.world.is_lost("gone-before-us"));
    assert!(!case.world.is_given_up("gone-before-us"));
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.world.is_given_up("gone-before-us"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_told_of_at_once_and_when_it_is_given_up() {
    let case = Case::new();
    case.node("n0", "True");
    case.jobs(&[("a", "j", &[])]).await;
    case.pod("j", "n0");
    case.sync();
    case.looked_at().await;
    Sink::<SlimNode>::delete(case.watched.as_ref(), &Key::new("", "n0"), "n0");
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.world.is_lost("n0") && !case.world.is_given_up("n0"));
    tokio::time::sleep(GIVEN_UP_AFTER).await;
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.world.is_given_up("n0"));
}

#[tokio::test(start_paused = true)]
async fn a_service_wakes_its_own_job_and_those_that_name_it() {
    let case = Case::new();
    case.jobs(&[
        ("a", "svc", &[]),
        ("a", "names-it", &["other", "svc"]),
        ("a", "names-another", &["other"]),
        ("b", "elsewhere", &["svc"]),
    ])
    .await;
    let ours = json!({names::MANAGED_BY: names::MANAGER});
    for labels in [ours, json!({})] {
        case.service("a", "svc", labels.clone());
        assert_eq!(case.looked_at().await, ["a/names-it", "a/svc"], "{labels}");
    }
    let svc = Key::new("a", "svc");
    Sink::<SlimService>::delete(case.watched.as_ref(), &svc, "s");
    assert_eq!(case.looked_at().await, ["a/names-it", "a/svc"]);
    assert!(case.world.services.get(&svc).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_wakes_its_own_jobs_and_only_when_something_that_is_read_has_changed() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[]), ("b", "j", &[])]).await;
    case.namespace(json!({"labels": {"team": "x"}}));
    assert_eq!(case.looked_at().await, ["a/j"]);
    case.namespace(json!({"labels": {"team": "x"}, "annotations": {"by": "someone"}}));
    assert!(case.looked_at().await.is_empty());
    case.namespace(json!({"labels": {"team": "y"}}));
    assert_eq!(case.looked_at().await, ["a/j"]);
    case.namespace(json!({"labels": {"team": "y"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(case.looked_at().await, ["a/j"]);
}

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

#[tokio::test(start_paused = true)]
async fn a_claim_and_its_volume_wake_the_jobs_that_mount_it_when_they_change() {
    let case = Case::new();
    for (namespace, name, claim) in [
        ("a", "mounts", "data"),
        ("a", "other", "x"),
        ("b", "far", "data"),
    ] {
        let job: TrainingJob = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"taskGroups": [{"name": "w", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"},
                "mounts": [{"path": "/data", "claim": claim}]}]},
        }));
        case.watched
            .apply(Key::of(job.meta()), DeserializeGuard(Ok(job)));
    }
    case.sync();
    case.looked_at().await;
    let claim = |phase: &str, volume: &str| -> SlimClaim {
        decoded(json!({
            "metadata": {"name": "data", "namespace": "a", "uid": "c"},
            "spec": {"volumeName": volume}, "status": {"phase": phase},
        }))
    };
    let key = Key::new("a", "data");
    case.watched.apply(key.clone(), claim("Pending", ""));
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    case.watched.apply(key.clone(), claim("Pending", ""));
    assert!(case.looked_at().await.is_empty(), "nothing new");
    case.watched.apply(key.clone(), claim("Bound", "v"));
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    let volume = |zone: &str| -> SlimVolume {
        decoded(json!({
            "metadata": {"name": "v", "uid": "v", "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"claimRef": {"namespace": "a", "name": "data"}},
        }))
    };
    for (zone, woken) in [("x", 1), ("x", 0), ("y", 1)] {
        case.watched.apply(Key::new("", "v"), volume(zone));
        assert_eq!(case.looked_at().await.len(), woken, "{zone}");
    }
    Sink::<SlimVolume>::delete(case.watched.as_ref(), &Key::new("", "v"), "v");
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    Sink::<SlimClaim>::delete(case.watched.as_ref(), &key, "c");
    assert_eq!(case.looked_at().await, ["a/mounts"]);
}

/// Cores that a node offers to the engine.
fn cores(case: &Case, node: &str) -> i64 {
    let node = case.world.engine_node(node).unwrap();
    node.allocatable
        .get(&trellis_scheduler::ResourceName::new("cpu"))
        / 1000
}

#[tokio::test(start_paused = true)]
async fn an_own_node_offers_less_until_the_daemon_sets_pod_is_there() {
    let mut case = Case::new();
    let node = |name: &str, own: &str| -> SlimNode {
        decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {names::OWN_NODE: own}},
            "spec": {"taints": [{"key": names::OWN_NODE, "value": "true", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "96", "pods": "110"}},
        }))
    };
    case.watched.apply(Key::new("", "own"), node("own", "true"));
    case.watched
        .apply(Key::new("", "shared"), node("shared", "false"));
    let set: SlimDaemonSet = decoded(json!({
        "metadata": {"name": "d", "namespace": "kube-system", "uid": "d", "generation": 1},
        "spec": {"template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "tolerations": [{"operator": "Exists"}],
        }}},
    }));
    let key = Key::of(&set.metadata);
    let told = async |case: &mut Case| {
        let mut nodes = Vec::new();
        while let Ok(feed) = case.heard.try_recv() {
            match feed {
                Feed::Node(name) => nodes.push(name.to_string()),
                Feed::Pod { .. } => nodes.push("pod".to_owned()),
                Feed::PodGone(_) => nodes.push("gone".to_owned()),
                _ => {}
            }
        }
        nodes
    };
    told(&mut case).await;
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (96, 96));
    case.watched.apply(key.clone(), set.clone());
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (94, 96));
    assert_eq!(told(&mut case).await, ["own"]);
    case.watched.apply(key.clone(), set);
    assert!(
        told(&mut case).await.is_empty(),
        "its status alone has changed"
    );
    let pod = |phase: &str| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "d-1", "namespace": "kube-system", "uid": "p", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true},
            ]},
            "spec": {"nodeName": "own"}, "status": {"phase": phase},
        }))
    };
    let name = Key::new("kube-system", "d-1");
    case.watched.apply(name.clone(), pod("Running"));
    assert_eq!(cores(&case, "own"), 96);
    assert_eq!(told(&mut case).await, ["pod", "own"]);
    case.watched.apply(name.clone(), pod("Failed"));
    assert_eq!(cores(&case, "own"), 94);
    assert_eq!(told(&mut case).await, ["own", "gone"]);
    case.watched.apply(name.clone(), pod("Running"));
    told(&mut case).await;
    Sink::<SlimPod>::delete(case.watched.as_ref(), &name, "p");
    assert_eq!(told(&mut case).await, ["own", "gone"]);
    Sink::<SlimDaemonSet>::delete(case.watched.as_ref(), &key, "d");
    assert_eq!(cores(&case, "own"), 96);
}

#[tokio::test]
async fn a_topology_is_told_of_and_one_that_does_not_decode_is_none() {
    let mut case = Case::new();
    let mut told = || match case.heard.try_recv() {
        Ok(Feed::Topology(name)) => name.to_string(),
        other => panic!("{other:?}"),
    };
    let guard = |spec: Value| -> DeserializeGuard<Topology> {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
            "metadata": {"name": "network", "uid": "t"}, "spec": spec,
        }))
    };
    let key = Key::new("", "network");
    let levels = |world: &World| world.topologies.get(&key).map(|t| t.spec.levels.clone());
    case.watched
        .apply(key.clone(), guard(json!({"levels": ["block", "rack"]})));
    assert_eq!(told(), "network");
    let two = vec!["block".to_owned(), "rack".to_owned()];
    assert_eq!(levels(&case.world), Some(two));
    case.watched
        .apply(key.clone(), guard(json!({"levels": "rack"})));
    assert_eq!((told(), levels(&case.world)), ("network".to_owned(), None));
    case.watched
        .apply(key.clone(), guard(json!({"levels": ["rack"]})));
    told();
    Sink::<DeserializeGuard<Topology>>::delete(&*case.watched, &key, "t");
    assert_eq!((told(), levels(&case.world)), ("network".to_owned(), None));
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
    while case.heard.try_recv().is_ok() {}

    let ended = Case::pod_of("j", "n0", "pod-of-j", "Failed");
    case.watched.apply(key.clone(), ended);
    Sink::<SlimPod>::delete(case.watched.as_ref(), &key, "pod-of-j");
    let told = case.heard.try_recv();
    assert!(told.is_err(), "the scheduler is told {told:?}");
    assert_eq!(case.world.pods.of(&job)["j-worker-0"].uid, "next");

    // Its own end is told, and so is that of a pod that is nobody's.
    for (name, uid) in [("j-worker-0", "next"), ("foreign", "f")] {
        let key = Key::new("a", name);
        Sink::<SlimPod>::delete(case.watched.as_ref(), &key, uid);
        let told = case.heard.try_recv();
        assert!(
            matches!(&told, Ok(Feed::PodGone(pod)) if *pod == key),
            "{told:?}"
        );
        while case.heard.try_recv().is_ok() {}
    }
    assert!(case.world.pods.of(&job).is_empty());
}
