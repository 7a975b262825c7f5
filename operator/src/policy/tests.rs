//! What is known of policies, and what is said of them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::{ClusterJobPolicy, JobPolicy, names};
use trellis_policies::cedar::{Loader, ObjectState, Policies, PolicyObject};

use super::status::status;
use super::violations::Told;
use super::*;
use crate::key::Key;
use crate::watch::{Sink, Undecodable};
use crate::world::{Watched, World};

const ALL: &str = "permit(principal, action, resource);";
const NONE: &str = "forbid(principal, action, resource);";

fn cluster(name: &str, version: u64, cedar: &str) -> ClusterJobPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(),
            "generation": version},
        "spec": {"cedar": cedar},
    }))
    .unwrap()
}

fn namespaced(namespace: &str, name: &str, cedar: &str) -> JobPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1",
            "generation": 1},
        "spec": {"cedar": cedar},
    }))
    .unwrap()
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .unwrap()
}

#[tokio::test]
async fn nothing_decides_before_all_objects_of_both_kinds_are_there() {
    let (world, _heard) = World::new();
    let watched = Watched::new(&world);
    let task = tokio::spawn(keep_policies(world.clone(), Loader::new().unwrap()));
    watched.apply(Key::new("", "all"), cluster("all", 1, ALL));
    Sink::<ClusterJobPolicy>::synced(&*watched);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.policies.active().is_none());
    watched.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    Sink::<JobPolicy>::synced(&*watched);
    within(world.policies.settled("a")).await;
    // What came with the last list may have been gathered for another time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let first = world.policies.active().unwrap();
    assert_eq!(first.verdicts().count(), 2);

    // What comes later is loaded too; a status of ours is no change.
    let next = async |before: &Arc<Policies>| {
        within(async {
            loop {
                let now = world.policies.active().unwrap();
                if !Arc::ptr_eq(&now, before) {
                    return now;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    };
    let mut ours = cluster("all", 1, ALL);
    ours.metadata.resource_version = Some("2".to_owned());
    watched.apply(Key::new("", "all"), ours);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(Arc::ptr_eq(&first, &world.policies.active().unwrap()));
    watched.apply(Key::new("", "all"), cluster("all", 3, NONE));
    within(world.policies.settled("a")).await;
    let second = next(&first).await;
    assert_ne!(first.hash(), second.hash());
    let gone = |key: &Key, uid: &str| Sink::<JobPolicy>::delete(&*watched, key, uid);
    let a = Some("a".to_owned());
    gone(&Key::new("a", "no"), "another");
    assert_eq!(world.policies.objects(&a).len(), 1);
    gone(&Key::new("a", "no"), "no");
    let third = next(&second).await;
    assert_eq!(third.verdicts().count(), 1);
    task.abort();
}

/// A namespace of which policies are known and not loaded.
#[tokio::test]
async fn cluster_policies_decide_before_those_of_namespaces_and_wait_for_none() {
    let (world, _heard) = World::new();
    let watched = Watched::new(&world);
    let loader = Loader::new().unwrap();
    watched.apply(Key::new("", "all"), cluster("all", 1, ALL));
    watched.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    let part = loader.part(None, None, world.policies.objects(&None));
    let latest = world.policies.latest(&None).unwrap();
    let namespaces = world.policies.namespaces();
    let begin = |_: Option<&Policies>| loader.begin(part, namespaces);
    let (before, begun) = world.policies.change(&None, latest, begin);
    assert!(before.is_none());
    assert!(begun.is_loaded("b") && !begun.is_loaded("a"));
    within(world.policies.loaded()).await;
    // A place in another namespace waits for nothing of this one.
    within(world.policies.settled("b")).await;
    let own = world.policies.settled("a");
    let waits = tokio::time::timeout(Duration::from_millis(50), own).await;
    assert!(waits.is_err(), "its policies are not loaded");
    // A change that comes while it waits is not waited for.
    let settled = {
        let world = world.clone();
        tokio::spawn(async move { world.policies.settled("a").await })
    };
    tokio::task::yield_now().await;
    let scope = Some("a".to_owned());
    let latest = world.policies.latest(&scope).unwrap();
    let part = loader.part(None, Some("a"), world.policies.objects(&scope));
    world.policies.touch(&Key::new("a", "later"));
    world
        .policies
        .change(&scope, latest, |active| active.unwrap().with(part));
    within(settled).await.unwrap();
    let active = world.policies.active().unwrap();
    assert!(active.is_loaded("a"));
    assert_ne!(active.version("a"), begun.version("a"));
    assert_eq!(active.version("b"), begun.version("b"));
}

#[test]
fn an_object_that_does_not_decode_any_more_is_there_still() {
    let (world, _heard) = World::new();
    let watched = Watched::new(&world);
    let key = Key::new("", "no");
    watched.apply(key.clone(), cluster("no", 1, NONE));
    let broken = Undecodable {
        uid: "no".to_owned(),
        generation: Some(2),
        error: "why".to_owned(),
    };
    Sink::<ClusterJobPolicy>::undecodable(&*watched, &key, broken);
    let objects = world.policies.objects(&None);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].unreadable.as_deref(), Some("why"));
    watched.apply(key, cluster("no", 3, NONE));
    assert_eq!(world.policies.objects(&None)[0].unreadable, None);
}

#[test]
fn a_requester_is_who_the_stamp_names() {
    let of = |stamp: &str| {
        let meta = kube::core::ObjectMeta {
            annotations: Some([(names::REQUESTED_BY.to_owned(), stamp.to_owned())].into()),
            ..Default::default()
        };
        requester(&meta)
    };
    let ada = of(r#"{"user": "ada", "groups": ["research"]}"#).unwrap();
    assert_eq!((ada.user.as_str(), ada.groups.len()), ("ada", 1));
    assert!(of(r#"{"user": "ada"}"#).unwrap().groups.is_empty());
    for none in [
        "",
        "ada",
        "{}",
        r#"{"user": ""}"#,
        r#"{"user": 1}"#,
        r#"{"groups": []}"#,
    ] {
        assert_eq!(of(none), None, "{none}");
    }
    assert_eq!(requester(&Default::default()), None);
}

#[test]
fn who_asks_is_who_the_stamp_will_name() {
    let of = |name: &str, groups: &[&str]| {
        requester_of(&k8s_openapi::api::authentication::v1::UserInfo {
            username: Some(name.to_owned()),
            groups: Some(groups.iter().map(|g| (*g).to_owned()).collect()),
            ..Default::default()
        })
    };
    let ada = of("ada", &["ml", "ml", "ops"]).unwrap();
    assert_eq!((ada.user.as_str(), ada.groups.len()), ("ada", 2));
    assert_eq!(of("", &["ml"]), None);
    // With its quotes it is as long as a stamp may be, and one character longer.
    let long = "g".repeat(32_766);
    assert!(of("ada", &[&long]).is_some());
    assert_eq!(of("ada", &[&format!("{long}g")]), None);
    assert_eq!(of("ada", &[&format!("{}\"", &long[1..])]), None);
}

#[test]
fn the_status_says_whether_an_object_takes_effect() {
    let loader = Loader::new().unwrap();
    let of = |before: Option<&Policies>, version, text| {
        let object = PolicyObject::from(&cluster("x", version, text));
        let (policies, mut verdicts) = loader.load(before, vec![object]);
        (policies, verdicts.remove(0))
    };
    let told = |verdict: &_| {
        let status = status(
            verdict,
            Some(1),
            &[],
            "h",
            Told::default(),
            Timestamp::UNIX_EPOCH,
        );
        let holds: String = status
            .conditions
            .iter()
            .map(|c| c.status.chars().next().unwrap())
            .collect();
        let types: Vec<_> = status.conditions.iter().map(|c| c.type_.clone()).collect();
        assert_eq!(
            types,
            ["Active", "Degraded", "Ready", "Reconciling", "Stalled"]
        );
        (holds, status.conditions[0].message.clone())
    };
    let (good, verdict) = of(None, 1, ALL);
    assert_eq!(told(&verdict).0, "TFTFF");
    let (_, verdict) = of(Some(&good), 2, "permit(");
    assert_eq!(verdict.state, ObjectState::Degraded);
    let (holds, message) = told(&verdict);
    assert_eq!(holds, "TTFFT");
    assert!(
        message.starts_with("the last good version takes effect"),
        "{message}"
    );
    assert!(message.contains("spec.cedar:1:8"), "{message}");
    let (_, verdict) = of(None, 2, "permit(");
    let (holds, message) = told(&verdict);
    assert_eq!(holds, "FTFFT");
    assert!(message.starts_with("it does not take effect"), "{message}");
}

#[test]
fn violations_are_counted_by_policy_and_go_with_their_job() {
    let violations = Violations::default();
    let denied = |ids: &[&str]| {
        let ids = ids.iter().map(|id| ((*id).to_owned(), "why".to_owned()));
        ids.collect()
    };
    for n in 0..30 {
        violations.set(
            &Key::new("ns", &format!("j{n:02}")),
            denied(&["x/0", "x/1", "ns/y/0"]),
        );
    }
    let told = violations.by_object();
    assert_eq!(told["x"].count, 30);
    assert_eq!(told["x"].shown.len(), 20);
    assert_eq!(told["x"].shown[0].policies, ["x/0", "x/1"]);
    assert_eq!(told["ns/y"].count, 30);
    for n in 0..30 {
        violations.set(&Key::new("ns", &format!("j{n:02}")), denied(&[]));
    }
    assert!(violations.by_object().is_empty());
}

#[test]
fn the_starter_set_is_good() {
    let objects = starter::objects();
    assert!(!objects.is_empty());
    let (_, verdicts) = Loader::new().unwrap().load(None, objects);
    assert!(verdicts.iter().all(|v| v.state == ObjectState::Active));
}
