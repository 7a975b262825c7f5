//! The loaded policies, and the status of policy objects.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_cache::policy::Told;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_dispatch::context::{Context, WatchSink};
use trellis_gang::key::Key;
use trellis_policies::cedar::{Loader, ObjectState, Policies, PolicyObject};

use super::status::status;
use super::*;

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
    let (context, _heard) = Context::new();
    let watched = WatchSink::new(&context);
    let task = tokio::spawn(keep_policies(context.clone(), Loader::new().unwrap()));
    watched.apply(Key::new("", "all"), cluster("all", 1, ALL));
    Sink::<ClusterJobPolicy>::synced(&*watched);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(context.cache.policies.active().is_none());
    watched.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    Sink::<JobPolicy>::synced(&*watched);
    within(context.cache.policies.settled("a")).await;
    // Changes of the first list may be loaded a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let first = context.cache.policies.active().unwrap();
    assert_eq!(first.verdicts().count(), 2);

    // A later change is loaded, too. A status that the operator wrote is no change.
    let next = async |before: &Arc<Policies>| {
        within(async {
            loop {
                let now = context.cache.policies.active().unwrap();
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
    assert!(Arc::ptr_eq(
        &first,
        &context.cache.policies.active().unwrap()
    ));
    watched.apply(Key::new("", "all"), cluster("all", 3, NONE));
    within(context.cache.policies.settled("a")).await;
    let second = next(&first).await;
    assert_ne!(first.hash(), second.hash());
    let gone = |key: &Key, uid: &str| Sink::<JobPolicy>::delete(&*watched, key, uid);
    let a = Some("a".to_owned());
    gone(&Key::new("a", "no"), "another");
    assert_eq!(context.cache.policies.objects(&a).len(), 1);
    gone(&Key::new("a", "no"), "no");
    let third = next(&second).await;
    assert_eq!(third.verdicts().count(), 1);
    task.abort();
}

/// A namespace of which policies are known and not loaded.
#[tokio::test]
async fn cluster_policies_decide_before_those_of_namespaces_and_wait_for_none() {
    let (context, _heard) = Context::new();
    let watched = WatchSink::new(&context);
    let loader = Loader::new().unwrap();
    watched.apply(Key::new("", "all"), cluster("all", 1, ALL));
    watched.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    let part = loader.part(None, None, context.cache.policies.objects(&None));
    let latest = context.cache.policies.latest(&None).unwrap();
    let namespaces = context.cache.policies.namespaces();
    let begin = |_: Option<&Policies>| loader.begin(part, namespaces);
    let (before, begun) = context.cache.policies.change(&None, latest, begin);
    assert!(before.is_none());
    assert!(begun.is_loaded("b") && !begun.is_loaded("a"));
    within(context.cache.policies.loaded()).await;
    // A place in another namespace waits for nothing of this one.
    within(context.cache.policies.settled("b")).await;
    let own = context.cache.policies.settled("a");
    let waits = tokio::time::timeout(Duration::from_millis(50), own).await;
    assert!(waits.is_err(), "its policies are not loaded");
    // A change that comes while it waits is not waited for.
    let settled = {
        let context = context.clone();
        tokio::spawn(async move { context.cache.policies.settled("a").await })
    };
    tokio::task::yield_now().await;
    let scope = Some("a".to_owned());
    let latest = context.cache.policies.latest(&scope).unwrap();
    let part = loader.part(None, Some("a"), context.cache.policies.objects(&scope));
    context.cache.policies.touch(&Key::new("a", "later"));
    context
        .cache
        .policies
        .change(&scope, latest, |active| active.unwrap().with(part));
    within(settled).await.unwrap();
    let active = context.cache.policies.active().unwrap();
    assert!(active.is_loaded("a"));
    assert_ne!(active.version("a"), begun.version("a"));
    assert_eq!(active.version("b"), begun.version("b"));
}

#[test]
fn an_object_that_does_not_decode_any_more_is_there_still() {
    let (context, _heard) = Context::new();
    let watched = WatchSink::new(&context);
    let key = Key::new("", "no");
    watched.apply(key.clone(), cluster("no", 1, NONE));
    let broken = Undecodable {
        uid: "no".to_owned(),
        generation: Some(2),
        error: "why".to_owned(),
    };
    Sink::<ClusterJobPolicy>::undecodable(&*watched, &key, broken);
    let objects = context.cache.policies.objects(&None);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].unreadable.as_deref(), Some("why"));
    watched.apply(key, cluster("no", 3, NONE));
    assert_eq!(context.cache.policies.objects(&None)[0].unreadable, None);
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
