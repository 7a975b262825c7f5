//! Objects that jobs depend on but do not own.

use trellis_api::QuotaLedger;

use super::*;

#[tokio::test(start_paused = true)]
async fn service_requeues_its_own_job_and_jobs_naming_it() {
    let case = ContextFixture::new();
    case.sync();
    case.jobs(&[
        ("a", "svc", &[]),
        ("a", "names-it", &["other", "svc"]),
        ("a", "names-another", &["other"]),
        ("b", "elsewhere", &["svc"]),
    ])
    .await;
    let own_labels = json!({names::MANAGED_BY: names::MANAGER});
    for labels in [own_labels, json!({})] {
        case.service("a", "svc", labels.clone());
        assert_eq!(
            case.requeued_jobs().await,
            ["a/names-it", "a/svc"],
            "{labels}"
        );
    }
    let svc = Key::new("a", "svc");
    Sink::<SlimService>::delete(case.sink.as_ref(), &svc, "s");
    assert_eq!(case.requeued_jobs().await, ["a/names-it", "a/svc"]);
    assert!(case.context.cache.services.get(&svc).is_none());
}

/// The scheduler creates no pods of the job while one of its Services is missing.
#[tokio::test(start_paused = true)]
async fn service_of_the_leader_wakes_controller_and_scheduler() {
    let mut case = ContextFixture::new();
    let group = |name: &str, role: &str| json!({"name": name, "image": "i", "role": role});
    for (name, head) in [("ray", "head"), ("ray-head", "main"), ("other", "head")] {
        let job: TrainingJob = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"framework": "Ray", "taskGroups": [group(head, "Coordinator")]},
        }));
        case.sink.apply(Key::new("a", name), job);
    }
    case.requeued_jobs().await;
    case.events.take_all();
    // Both jobs have a Service of this name, and its owner may change.
    case.service("a", "ray-head", json!({}));
    let rechecked = case
        .events
        .take_all()
        .into_iter()
        .filter_map(|event| match event {
            SchedulerEvent::Recheck(job) => Some(job.to_string()),
            _ => None,
        });
    let mut rechecked: Vec<_> = rechecked.collect();
    rechecked.sort();
    assert_eq!(rechecked, ["a/ray", "a/ray-head"]);
    assert_eq!(case.requeued_jobs().await, ["a/ray", "a/ray-head"]);
}

#[tokio::test(start_paused = true)]
async fn namespace_requeues_its_jobs_only_when_labels_or_termination_change() {
    let case = ContextFixture::new();
    case.sync();
    case.jobs(&[("a", "j", &[]), ("b", "j", &[])]).await;
    case.namespace(json!({"labels": {"team": "x"}}));
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    case.namespace(json!({"labels": {"team": "x"}, "annotations": {"by": "someone"}}));
    assert!(case.requeued_jobs().await.is_empty());
    case.namespace(json!({"labels": {"team": "y"}}));
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    case.namespace(json!({"labels": {"team": "y"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
}

/// Before the first list, the controller reconciles no job, so searching all jobs for each event
/// would be useless.
#[tokio::test(start_paused = true)]
async fn job_is_requeued_only_by_its_children_before_the_first_list() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "svc", &[]), ("a", "names-it", &["svc"])])
        .await;
    case.service("a", "svc", json!({}));
    case.namespace(json!({"labels": {"team": "x"}}));
    assert_eq!(case.requeued_jobs().await, ["a/svc"]);
    case.sync();
    case.service("a", "svc", json!({}));
    assert_eq!(case.requeued_jobs().await, ["a/names-it", "a/svc"]);
}

#[tokio::test]
async fn undecodable_topology_is_removed_from_the_cache() {
    let mut case = ContextFixture::new();
    let mut topology_event = || match case.events.take_all().as_slice() {
        [SchedulerEvent::Topology(name)] => name.to_string(),
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
    case.sink.apply(key.clone(), topology(&["block", "rack"]));
    assert_eq!(topology_event(), "network");
    let two = vec!["block".to_owned(), "rack".to_owned()];
    assert_eq!(levels(&case.context), Some(two));
    let undecodable = Undecodable {
        uid: "t".to_owned(),
        generation: None,
        error: String::new(),
    };
    Sink::<Topology>::undecodable(&*case.sink, &key, undecodable);
    assert_eq!(
        (topology_event(), levels(&case.context)),
        ("network".to_owned(), None)
    );
    case.sink.apply(key.clone(), topology(&["rack"]));
    let one = Some(vec!["rack".to_owned()]);
    assert_eq!(
        (topology_event(), levels(&case.context)),
        ("network".to_owned(), one)
    );
    Sink::<Topology>::delete(&*case.sink, &key, "t");
    assert_eq!(
        (topology_event(), levels(&case.context)),
        ("network".to_owned(), None)
    );
}

#[tokio::test(start_paused = true)]
async fn profile_requeues_jobs_naming_it_or_no_profile() {
    let case = ContextFixture::new();
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
        case.sink.apply(Key::from_meta(job.meta()), job);
    }
    case.requeued_jobs().await;
    let profile = |env: &str| -> RuntimeProfile {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": "p", "uid": "p"}, "spec": {"env": [{"name": env, "value": "1"}]},
        }))
    };
    let key = Key::new("", "p");
    let both = ["a/none", "a/own"];
    case.sink.apply(key.clone(), profile("A"));
    assert_eq!(case.requeued_jobs().await, both);
    // Only the status changes.
    case.sink.apply(key.clone(), profile("A"));
    assert!(case.requeued_jobs().await.is_empty());
    case.sink.apply(key.clone(), profile("B"));
    assert_eq!(case.requeued_jobs().await, both);
    let undecodable = Undecodable {
        uid: "p".to_owned(),
        generation: None,
        error: "no spec".to_owned(),
    };
    Sink::<RuntimeProfile>::undecodable(&*case.sink, &key, undecodable);
    assert_eq!(case.requeued_jobs().await, both);
    let known = case.context.cache.profiles.get("p").unwrap();
    assert!(known.profile.unwrap_err().contains("no spec"));
    // The deletion of an earlier incarnation changes nothing.
    Sink::<RuntimeProfile>::delete(&*case.sink, &key, "before");
    assert!(case.context.cache.profiles.get("p").is_some());
    Sink::<RuntimeProfile>::delete(&*case.sink, &key, "p");
    assert!(case.context.cache.profiles.get("p").is_none());
    assert_eq!(case.requeued_jobs().await, both);
}

/// QuotaPolicies of a queue count the jobs of all queues below it. If the tree changes, the
/// operator reads them again.
#[tokio::test(start_paused = true)]
async fn quota_policies_are_reread_when_a_queue_changes_its_parent() {
    let case = ContextFixture::new();
    let queue = |generation: i64, parent: Option<&str>| {
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": "q", "uid": "q", "generation": generation},
            "spec": {"parentName": parent},
        }));
        case.sink.apply(Key::new("", "q"), queue);
        case.context.cache.quotas.version()
    };
    let first = queue(1, None);
    let below = queue(2, Some("all"));
    assert!(below > first);
    assert_eq!(queue(3, Some("all")), below, "something else of it");
    let other = queue(4, Some("other"));
    assert!(other > below);
    Sink::<TrainingQueue>::delete(&*case.sink, &Key::new("", "q"), "q");
    assert!(case.context.cache.quotas.version() > other);
}

/// The scheduler reads a ledger once. Only a change of an unreadable ledger concerns it.
#[tokio::test(start_paused = true)]
async fn unreadable_ledger_is_reread_once_corrected_or_deleted() {
    let case = ContextFixture::new();
    let key = Key::new("", "q");
    let version = || case.context.cache.quotas.version();
    let written = |number: i64, amount: &str| {
        let time = "2026-01-01T00:00:00Z";
        let ledger: QuotaLedger = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaLedger",
            "metadata": {"name": "q", "uid": "l", "resourceVersion": number.to_string()},
            "spec": {"until": time, "entries": [{"start": time, "gpuSeconds": amount}]},
        }));
        case.sink.apply(key.clone(), ledger);
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
    Sink::<QuotaLedger>::undecodable(&*case.sink, &key, spoilt);
    assert_eq!(version(), corrected);
    Sink::<QuotaLedger>::delete(&*case.sink, &key, "another");
    assert_eq!(version(), corrected);
    Sink::<QuotaLedger>::delete(&*case.sink, &key, "l");
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
