//! Objects that jobs depend on but do not own.

use trellis_api::QuotaLedger;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_service_wakes_its_own_job_and_those_that_name_it() {
    let case = Case::new();
    case.sync();
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
    assert!(case.context.cache.services.get(&svc).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_wakes_its_own_jobs_and_only_when_something_that_is_read_has_changed() {
    let case = Case::new();
    case.sync();
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

/// Each event would cost a look at all jobs, and nobody has looked at one yet.
#[tokio::test(start_paused = true)]
async fn before_everything_is_listed_nothing_wakes_a_job_but_what_is_its_own() {
    let case = Case::new();
    case.jobs(&[("a", "svc", &[]), ("a", "names-it", &["svc"])])
        .await;
    case.service("a", "svc", json!({}));
    case.namespace(json!({"labels": {"team": "x"}}));
    assert_eq!(case.looked_at().await, ["a/svc"]);
    case.sync();
    case.service("a", "svc", json!({}));
    assert_eq!(case.looked_at().await, ["a/names-it", "a/svc"]);
}

#[tokio::test]
async fn a_topology_is_told_of_and_one_that_does_not_decode_is_none() {
    let mut case = Case::new();
    let mut told = || match case.heard.take().as_slice() {
        [Feed::Topology(name)] => name.to_string(),
        other => panic!("{other:?}"),
    };
    let topology = |keys: &[&str]| -> Topology {
        let levels: Vec<Value> = keys.iter().map(|key| json!({"nodeLabel": key})).collect();
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
            "metadata": {"name": "network", "uid": "t"}, "spec": {"levels": levels},
        }))
    };
    let key = Key::new("", "network");
    let levels = |context: &Context| {
        let topology = context.cache.topologies.get(&key)?;
        let levels = topology.spec.levels.iter();
        Some(levels.map(|level| level.name().to_owned()).collect())
    };
    case.watched
        .apply(key.clone(), topology(&["block", "rack"]));
    assert_eq!(told(), "network");
    let two = vec!["block".to_owned(), "rack".to_owned()];
    assert_eq!(levels(&case.context), Some(two));
    let broken = Undecodable {
        uid: "t".to_owned(),
        generation: None,
        error: String::new(),
    };
    Sink::<Topology>::undecodable(&*case.watched, &key, broken);
    assert_eq!(
        (told(), levels(&case.context)),
        ("network".to_owned(), None)
    );
    case.watched.apply(key.clone(), topology(&["rack"]));
    let one = Some(vec!["rack".to_owned()]);
    assert_eq!((told(), levels(&case.context)), ("network".to_owned(), one));
    Sink::<Topology>::delete(&*case.watched, &key, "t");
    assert_eq!(
        (told(), levels(&case.context)),
        ("network".to_owned(), None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_profile_wakes_the_jobs_that_name_it_and_those_that_name_none() {
    let case = Case::new();
    case.sync();
    for (name, profile) in [
        ("own", json!("p")),
        ("other", json!("q")),
        ("none", json!(null)),
    ] {
        let job: TrainingJob = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"taskGroups": [], "profile": profile},
        }));
        case.watched.apply(Key::of(job.meta()), job);
    }
    case.looked_at().await;
    let profile = |env: &str| -> RuntimeProfile {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": "p", "uid": "p"}, "spec": {"env": [{"name": env, "value": "1"}]},
        }))
    };
    let key = Key::new("", "p");
    let both = ["a/none", "a/own"];
    case.watched.apply(key.clone(), profile("A"));
    assert_eq!(case.looked_at().await, both);
    // Its status alone.
    case.watched.apply(key.clone(), profile("A"));
    assert!(case.looked_at().await.is_empty());
    case.watched.apply(key.clone(), profile("B"));
    assert_eq!(case.looked_at().await, both);
    let broken = Undecodable {
        uid: "p".to_owned(),
        generation: None,
        error: "no spec".to_owned(),
    };
    Sink::<RuntimeProfile>::undecodable(&*case.watched, &key, broken);
    assert_eq!(case.looked_at().await, both);
    let known = case.context.cache.profiles.get("p").unwrap();
    assert!(known.profile.unwrap_err().contains("no spec"));
    // The deletion of an earlier incarnation changes nothing.
    Sink::<RuntimeProfile>::delete(&*case.watched, &key, "before");
    assert!(case.context.cache.profiles.get("p").is_some());
    Sink::<RuntimeProfile>::delete(&*case.watched, &key, "p");
    assert!(case.context.cache.profiles.get("p").is_none());
    assert_eq!(case.looked_at().await, both);
}

/// QuotaPolicies of a queue count the jobs of all below it: where the tree is another,
/// they are read anew.
#[tokio::test(start_paused = true)]
async fn a_queue_that_moves_in_the_tree_has_quota_policies_read_anew() {
    let case = Case::new();
    let queue = |generation: i64, parent: Option<&str>| {
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": "q", "uid": "q", "generation": generation},
            "spec": {"parentName": parent},
        }));
        case.watched.apply(Key::new("", "q"), queue);
        case.context.cache.quotas.version()
    };
    let first = queue(1, None);
    let below = queue(2, Some("all"));
    assert!(below > first);
    assert_eq!(queue(3, Some("all")), below, "something else of it");
    let other = queue(4, Some("other"));
    assert!(other > below);
    Sink::<TrainingQueue>::delete(&*case.watched, &Key::new("", "q"), "q");
    assert!(case.context.cache.quotas.version() > other);
}

/// The scheduler reads a ledger once: only one that could not be read is news to it.
#[tokio::test(start_paused = true)]
async fn ledger_that_could_not_be_read_is_read_anew_once_it_is_corrected_or_gone() {
    let case = Case::new();
    let key = Key::new("", "q");
    let version = || case.context.cache.quotas.version();
    let written = |number: i64, amount: &str| {
        let time = "2026-01-01T00:00:00Z";
        let ledger: QuotaLedger = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaLedger",
            "metadata": {"name": "q", "uid": "l", "resourceVersion": number.to_string()},
            "spec": {"until": time, "entries": [{"start": time, "gpuSeconds": amount}]},
        }));
        case.watched.apply(key.clone(), ledger);
        version()
    };
    let first = written(1, "1");
    assert_eq!(written(2, "2"), first);
    assert_eq!(written(3, "lots"), first);
    let corrected = written(4, "3");
    assert!(corrected > first);
    let spoilt = Undecodable {
        uid: "l".to_owned(),
        generation: None,
        error: "no".to_owned(),
    };
    Sink::<QuotaLedger>::undecodable(&*case.watched, &key, spoilt);
    assert_eq!(version(), corrected);
    Sink::<QuotaLedger>::delete(&*case.watched, &key, "another");
    assert_eq!(version(), corrected);
    Sink::<QuotaLedger>::delete(&*case.watched, &key, "l");
    assert!(version() > corrected);
    assert!(
        case.context
            .cache
            .quotas
            .undecodable_ledgers
            .read()
            .is_empty()
    );
}
