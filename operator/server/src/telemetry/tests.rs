use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_dispatch::leader::Leadership;
use trellis_dispatch::{
    EventReceiver, NodeOrderEnd, QueueReport, ReconcileResult, SchedulerEvent, TotalsReport,
    markdown,
};
use trellis_gang::key::Key;
use trellis_scheduler::{
    DomainTotals, FlavorName, QueueName, QueueUsage, QueueUsageLine, ResourceName, ResourceTotals,
    TopologyName,
};

use super::*;
use crate::serve::{CertificateSource, Identity, ReloadingCertificate};
use crate::webhook::Readiness;

fn leading() -> (ActiveLeader, EventReceiver) {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    let (context, events) = Context::new();
    let commands = Commands::new(client, Leadership::for_test());
    (ActiveLeader { context, commands }, events)
}

fn observe<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn job(name: &str, queue: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1"},
        "spec": {"framework": "None", "taskGroups": []},
        "status": {"phase": "Queued", "reason": "QuotaExceeded", "queue": queue,
            "queuedTime": "2026-01-01T00:00:00Z"},
    })
}

/// Returns a context in which each metric has a value.
fn busy_leader() -> (ActiveLeader, EventReceiver) {
    let (leading, events) = leading();
    let context = &leading.context;
    let key = Key::new("team-a", "llm");
    let queue = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "vision", "resourceVersion": "1"}, "spec": {}});
    context
        .cache
        .queues
        .insert_observed(Key::new("", "vision"), observe(queue));
    let flavor = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": "a100", "resourceVersion": "1"}, "spec": {},
        "status": {"conditions": [{"type": "AutoscalerSuitable", "status": "False",
            "reason": "AutoscalerMisconfigured", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
    context
        .cache
        .flavors
        .insert_observed(Key::new("", "a100"), observe(flavor));
    let made_up = job("other", "x\"} evil 1");
    context
        .cache
        .jobs
        .insert_observed(key.clone(), observe(job("llm", "vision")));
    context
        .cache
        .jobs
        .insert_observed(Key::new("team-a", "other"), observe(made_up));
    let mut split = job("split", "vision");
    split["status"]["reason"] = json!("Fragmented");
    context
        .cache
        .jobs
        .insert_observed(Key::new("team-a", "split"), observe(split));
    let mut blocked = job("blocked", "vision");
    blocked["status"]["phase"] = json!("Blocked");
    blocked["status"]["conditions"] = json!([{"type": "Stalled", "status": "True",
        "reason": "NameConflict", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
    context
        .cache
        .jobs
        .insert_observed(Key::new("team-a", "blocked"), observe(blocked));
    // A pod of a job, on a node whose object is deleted.
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "llm-w-0", "namespace": "team-a", "uid": "p", "resourceVersion": "1",
            "labels": {"trellis.dev/job": "llm"}, "ownerReferences": [{
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "llm",
                "uid": "llm", "controller": true}]},
        "spec": {"nodeName": "gone", "containers": []}, "status": {"phase": "Running"}});
    context
        .cache
        .pods
        .apply(&Key::new("team-a", "llm-w-0"), &observe(pod.clone()));
    // The pod runs another image than policies have judged.
    pod["spec"]["containers"] = json!([{"name": "main", "image": "evil:1"}]);
    context
        .cache
        .pods
        .apply(&Key::new("team-a", "llm-w-0"), &observe(pod));
    let _pods = context.cache.pulse("pods");
    let counts = &context.metrics;
    let took = Duration::from_millis(3);
    counts.count_reconcile(ReconcileResult::Behind, took);
    counts.observe_cycle(took);
    counts.count_decision("Place");
    counts.count_placement(&key, "vision", took);
    counts.count_put_off(Reason::PodRefused);
    counts.count_rollback(Reason::Preempted);
    counts.observe_start(&key, took);
    counts.count_ended_attempt("OutOfMemory");
    counts.count_ended_attempt("a word of nobody");
    counts.count_ended_job(JobPhase::Failed, Reason::PodFailed);
    counts.count_write(Ok(()), took);
    counts.count_write(Err(&WriteError::Withdrawn), took);
    counts.count_node_order("a100", NodeOrderEnd::Used);
    counts.observe_node_order(took);
    counts.record_nodes_on_order(3, 13, Duration::from_secs(2));
    (leading, events)
}

fn queues() -> BTreeMap<QueueName, QueueReport> {
    let line = QueueUsageLine {
        flavor: FlavorName::new("a100"),
        resource: ResourceName::new("cpu"),
        nominal: 64_000,
        usage: 1_500,
        borrowed: 0,
        lendable: 0,
        available: None,
    };
    let report = QueueReport {
        usage: Some(QueueUsage {
            fault: None,
            share: 0.25,
            borrowed_share: None,
            lines: vec![line],
        }),
        ..QueueReport::default()
    };
    [(QueueName::new("vision"), report)].into()
}

fn totals() -> TotalsReport {
    let gpus = ResourceTotals {
        allocatable: 16,
        placed_gangs: 8,
        external_pods: 1,
    };
    let beside = ResourceTotals::default();
    TotalsReport {
        by_resource: [("nvidia.com/gpu", gpus), ("cpu", beside)]
            .map(|(name, totals)| (ResourceName::new(name), totals))
            .into(),
        domains: vec![DomainTotals {
            topology: TopologyName::new("network"),
            level: "rack".to_owned(),
            free: 3,
            used: 9,
        }],
        wrong_limits: 2,
    }
}

async fn all_metrics() -> String {
    let (leading, mut events) = busy_leader();
    let answers = async {
        loop {
            for event in events.next().await {
                match event {
                    SchedulerEvent::AskQueues(answer) => answer.send(queues()).unwrap(),
                    SchedulerEvent::AskTotals(answer) => answer.send(totals()).unwrap(),
                    _ => {}
                }
            }
        }
    };
    let nobody = Identity::default();
    tokio::select! {
        text = render_metrics(Some(&leading), None, &nobody) => text.unwrap(),
        () = answers => unreachable!("it goes on for ever"),
    }
}

#[tokio::test]
async fn all_metrics_have_their_values() {
    let text = all_metrics().await;
    for line in [
        "trellis_leader 1.0",
        "trellis_leader_epoch 1.0",
        "trellis_caches_synced 0.0",
        "trellis_jobs{queue=\"vision\",phase=\"Queued\"} 2.0",
        "trellis_jobs{queue=\"\",phase=\"Queued\"} 1.0",
        "trellis_jobs_waiting{queue=\"vision\",reason=\"QuotaExceeded\"} 1.0",
        "trellis_jobs_waiting{queue=\"vision\",reason=\"Fragmented\"} 1.0",
        "trellis_fragmentation_wait_seconds_total{queue=\"vision\"} 0.0",
        "trellis_queue_used{queue=\"vision\",flavor=\"a100\",resource=\"cpu\"} 1.5",
        "trellis_devices{resource=\"nvidia.com/gpu\",state=\"free\"} 7.0",
        "trellis_domains{topology=\"network\",level=\"rack\",state=\"free\"} 3.0",
        "trellis_domains{topology=\"network\",level=\"rack\",state=\"used\"} 9.0",
        "trellis_changed_pods 1.0",
        "trellis_ledger_wrong_limits 2.0",
        "trellis_reconciles_total{result=\"behind\"} 1",
        "trellis_attempts_ended_total{reason=\"OutOfMemory\"} 1",
        "trellis_attempts_ended_total{reason=\"Unrecognized\"} 1",
        "trellis_jobs_ended_total{phase=\"Failed\",reason=\"PodFailed\"} 1",
        "trellis_writes_total{outcome=\"not_wanted\"} 1",
        "trellis_nodes{state=\"lost\"} 1.0",
        "trellis_node_orders_total{flavor=\"a100\",outcome=\"used\"} 1",
        "trellis_autoscaler_suitable{flavor=\"a100\"} 0.0",
        "trellis_nodes_on_order{state=\"arrived\"} 3",
        "trellis_nodes_on_order{state=\"missing\"} 13",
        "trellis_ordered_node_idle_seconds_total 6.0",
        "trellis_jobs_held_oldest_seconds{phase=\"Waiting\"} 0.0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("trellis_jobs_held_oldest_seconds{phase=\"Blocked\"} "));
    assert!(value.unwrap().parse::<f64>().unwrap() > 1e9, "{text}");
    let exemplar =
        "trellis_gang_start_duration_seconds_bucket{le=\"0.01\"} 1 # {job=\"team-a/llm\"}";
    assert!(text.contains(exemplar), "{text}");
    assert!(!text.contains("evil"), "a user's word is no label: {text}");
    assert!(text.ends_with("# EOF\n"));
}

/// The table lists exactly the metrics that are exported.
#[tokio::test]
async fn exported_metrics_are_documented_with_their_labels() {
    let text = all_metrics().await + &crate::webhook::sample_text();
    let table = markdown();
    let mut documented: BTreeMap<&str, (&str, BTreeSet<&str>)> = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`'));
        let labels = labels.filter(|label| !label.is_empty()).collect();
        documented.insert(cells[1].trim_matches('`'), (cells[2], labels));
    }
    let mut rendered = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let line = line.split(" # ").next().unwrap();
        let (name, labels) = match line.split_once('{') {
            Some((name, rest)) => (name, rest.rsplit_once('}').unwrap().0),
            None => (line.split(' ').next().unwrap(), ""),
        };
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let (_, labels_of_metric) = &documented[base];
        let labels = labels
            .split(',')
            .filter_map(|label| label.split('=').next());
        let labels = labels.filter(|label| !label.is_empty() && *label != "le");
        assert_eq!(labels.collect::<BTreeSet<_>>(), *labels_of_metric, "{line}");
        rendered.insert(base);
    }
    let documented: BTreeSet<&str> = documented.into_keys().collect();
    assert_eq!(rendered, documented);
}

#[tokio::test(start_paused = true)]
async fn silent_scheduler_hides_only_its_own_gauges() {
    let (leading, _heard) = busy_leader();
    let text = render_metrics(Some(&leading), None, &Identity::default())
        .await
        .unwrap();
    assert!(text.contains("trellis_jobs{"), "{text}");
    assert!(!text.contains("trellis_devices{"), "{text}");
}

#[tokio::test]
async fn standby_replica_reports_its_state() {
    let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
    let identity = ReloadingCertificate::new(own).unwrap().identity();
    identity.set_degraded(true);
    let text = render_metrics(None, None, &identity).await.unwrap();
    assert!(text.contains("trellis_leader 0.0") && text.contains("trellis_build_info{version="));
    // Only this replica exports the expiry of its certificate.
    let ends = identity.expiry().unwrap().as_second();
    for (what, value) in [("expiry_timestamp_seconds", ends), ("degraded", 1)] {
        let name = format!("trellis_endpoint_certificate_{what} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        assert_eq!(
            line.unwrap().parse::<f64>().unwrap() as i64,
            value,
            "{text}"
        );
    }
}

/// The webhook of a standby replica uses its own watches.
#[tokio::test(start_paused = true)]
async fn standby_replica_reports_the_watch_ages_of_its_webhook() {
    let (leading, _heard) = leading();
    let _namespaces = leading.context.cache.pulse("namespaces");
    let webhook = Readiness::for_context(Identity::default(), leading.context);
    tokio::time::advance(Duration::from_secs(200)).await;
    let text = render_metrics(None, Some(&webhook), &Identity::default())
        .await
        .unwrap();
    let line = "trellis_watch_age_seconds{resource=\"namespaces\"} 200.0";
    assert!(text.lines().any(|l| l == line), "{text}");
    assert!(text.contains("trellis_leader 0.0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn longest_running_reconciliation_is_reported() {
    let (leading, _heard) = leading();
    let work = &leading.context.work_queue;
    for name in ["a", "b"] {
        work.add(Key::new("ns", name));
    }
    let _looked_at = work.next().await;
    tokio::time::advance(Duration::from_secs(301)).await;
    let nobody = Identity::default();
    let text = render_metrics(Some(&leading), None, &nobody).await.unwrap();
    for line in [
        "trellis_reconcile_oldest_seconds 301.0",
        "trellis_reconciles_due 1.0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}
