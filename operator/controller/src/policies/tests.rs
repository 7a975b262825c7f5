//! The loaded policies, and the status of policy objects.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_cache::policy::ObjectViolations;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_dispatch::context::{Context, WatchSink};
use trellis_gang::key::Key;
use trellis_policies::cedar::{Policies, PolicyLoader, PolicyObject, PolicyObjectState};

use super::status::build_status;
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

async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .unwrap()
}

#[tokio::test]
async fn policies_load_only_after_both_kinds_are_listed() {
    let (context, _events) = Context::new();
    let sink = WatchSink::new(&context);
    let task = tokio::spawn(maintain_policies(
        context.clone(),
        PolicyLoader::new().unwrap(),
    ));
    sink.apply(Key::new("", "all"), cluster("all", 1, ALL));
    Sink::<ClusterJobPolicy>::synced(&*sink);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(context.cache.policies.active().is_none());
    sink.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    Sink::<JobPolicy>::synced(&*sink);
    with_timeout(context.cache.policies.wait_settled("a")).await;
    // Changes of the first list may be loaded a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let first = context.cache.policies.active().unwrap();
    assert_eq!(first.load_results().count(), 2);

    // A later change is loaded, too. A status that the operator has written is no change.
    let next_policies = async |before: &Arc<Policies>| {
        with_timeout(async {
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
    let mut with_new_status = cluster("all", 1, ALL);
    with_new_status.metadata.resource_version = Some("2".to_owned());
    sink.apply(Key::new("", "all"), with_new_status);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(Arc::ptr_eq(
        &first,
        &context.cache.policies.active().unwrap()
    ));
    sink.apply(Key::new("", "all"), cluster("all", 3, NONE));
    with_timeout(context.cache.policies.wait_settled("a")).await;
    let second = next_policies(&first).await;
    assert_ne!(first.hash(), second.hash());
    let delete = |key: &Key, uid: &str| Sink::<JobPolicy>::delete(&*sink, key, uid);
    let scope = Some("a".to_owned());
    delete(&Key::new("a", "no"), "another");
    assert_eq!(context.cache.policies.objects(&scope).len(), 1);
    delete(&Key::new("a", "no"), "no");
    let third = next_policies(&second).await;
    assert_eq!(third.load_results().count(), 1);
    task.abort();
}

/// The policies of the namespace are known and not loaded yet.
#[tokio::test]
async fn cluster_policies_load_without_waiting_for_namespace_policies() {
    let (context, _events) = Context::new();
    let sink = WatchSink::new(&context);
    let loader = PolicyLoader::new().unwrap();
    sink.apply(Key::new("", "all"), cluster("all", 1, ALL));
    sink.apply(Key::new("a", "no"), namespaced("a", "no", NONE));
    let part = loader.load_part(None, None, context.cache.policies.objects(&None));
    let latest = context.cache.policies.latest_change(&None).unwrap();
    let namespaces = context.cache.policies.namespaces();
    let load = |_: Option<&Policies>| loader.load_cluster_first(part, namespaces);
    let (before, cluster_only) = context.cache.policies.update(&None, latest, load);
    assert!(before.is_none());
    assert!(cluster_only.is_loaded("b") && !cluster_only.is_loaded("a"));
    with_timeout(context.cache.policies.wait_loaded()).await;
    // Jobs of another namespace do not wait for the policies of this namespace.
    with_timeout(context.cache.policies.wait_settled("b")).await;
    let settled = context.cache.policies.wait_settled("a");
    let result = tokio::time::timeout(Duration::from_millis(50), settled).await;
    assert!(
        result.is_err(),
        "the policies of the namespace are not loaded"
    );
    // The wait ends although the policies change again.
    let settled = {
        let context = context.clone();
        tokio::spawn(async move { context.cache.policies.wait_settled("a").await })
    };
    tokio::task::yield_now().await;
    let scope = Some("a".to_owned());
    let latest = context.cache.policies.latest_change(&scope).unwrap();
    let part = loader.load_part(None, Some("a"), context.cache.policies.objects(&scope));
    context
        .cache
        .policies
        .record_change(&Key::new("a", "later"));
    context
        .cache
        .policies
        .update(&scope, latest, |active| active.unwrap().with_part(part));
    with_timeout(settled).await.unwrap();
    let active = context.cache.policies.active().unwrap();
    assert!(active.is_loaded("a"));
    assert_ne!(active.version("a"), cluster_only.version("a"));
    assert_eq!(active.version("b"), cluster_only.version("b"));
}

#[test]
fn undecodable_policy_stays_in_the_policy_set() {
    let (context, _events) = Context::new();
    let sink = WatchSink::new(&context);
    let key = Key::new("", "no");
    sink.apply(key.clone(), cluster("no", 1, NONE));
    let broken = Undecodable {
        uid: "no".to_owned(),
        generation: Some(2),
        error: "why".to_owned(),
    };
    Sink::<ClusterJobPolicy>::undecodable(&*sink, &key, broken);
    let objects = context.cache.policies.objects(&None);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].decode_error.as_deref(), Some("why"));
    sink.apply(key, cluster("no", 3, NONE));
    assert_eq!(context.cache.policies.objects(&None)[0].decode_error, None);
}

#[test]
fn policy_status_reports_whether_the_policy_takes_effect() {
    let loader = PolicyLoader::new().unwrap();
    let load = |before: Option<&Policies>, version, text| {
        let object = PolicyObject::from(&cluster("x", version, text));
        let (policies, mut verdicts) = loader.load(before, vec![object]);
        (policies, verdicts.remove(0))
    };
    let describe = |verdict: &_, unknown| {
        let set = ("h", ObjectViolations::default());
        let status = build_status(verdict, unknown, Some(1), &[], set, Timestamp::UNIX_EPOCH);
        let conditions: String = status
            .conditions
            .iter()
            .map(|c| c.status.chars().next().unwrap())
            .collect();
        let types: Vec<_> = status.conditions.iter().map(|c| c.type_.clone()).collect();
        assert_eq!(
            types,
            ["Active", "Degraded", "Ready", "Reconciling", "Stalled"]
        );
        (conditions, status.conditions[0].message.clone())
    };
    let describe_status = |verdict: &_| describe(verdict, None);
    let (good, verdict) = load(None, 1, ALL);
    assert_eq!(describe_status(&verdict).0, "TFTFF");
    let (conditions, message) = describe(&verdict, Some("nothing writes it"));
    assert_eq!(conditions, "TTTFF");
    let start =
        "who requests a job is unknown, so policies that depend on it deny: nothing writes it";
    assert!(message.starts_with(start), "{message}");
    let (_, verdict) = load(Some(&good), 2, "permit(");
    assert_eq!(verdict.state, PolicyObjectState::Degraded);
    let (conditions, message) = describe_status(&verdict);
    assert_eq!(conditions, "TTFFT");
    assert!(
        message.starts_with("the last good version takes effect"),
        "{message}"
    );
    assert!(message.contains("spec.cedar:1:8"), "{message}");
    let (_, verdict) = load(None, 2, "permit(");
    let (conditions, message) = describe_status(&verdict);
    assert_eq!(conditions, "FTFFT");
    assert!(message.starts_with("it does not take effect"), "{message}");
}
