//! Plans of a real scheduler, whose watches the tests feed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::visibility::{JobRef, PlanVerdict, PlannedJob as Outcome};
use trellis_api::{ClusterJobPolicy, PodGroup, Reason, TrainingJob, TrainingQueue};
use trellis_cache::watch::Sink;
use trellis_dispatch::commands::Commands;
use trellis_dispatch::context::WatchSink;
use trellis_dispatch::leader::Leadership;
use trellis_dispatch::{Committer, Driver, SchedulerEvent};
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimNamespace, SlimNode, SlimPod};
use trellis_policies::cedar::{PolicyLoader, PolicyObject, Requester, starter_set};

use super::super::explanations::{Priorities, VisibleScope};
use super::planner::Planner;
use super::*;

/// A cluster with its scheduler.
struct Cluster {
    context: Arc<Context>,
    sink: Arc<WatchSink>,
}

fn decode<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

impl Cluster {
    /// Returns a cluster with nodes of 8 GPUs, the namespace "team", and the queue "default".
    fn new(nodes: &[&str]) -> Self {
        let (context, events) = Context::new();
        let sink = WatchSink::new(&context);
        let cluster = Self { context, sink };
        for node in nodes {
            cluster.apply("", node, cluster.node(node));
        }
        let namespace =
            json!({"metadata": {"name": "team", "uid": "team", "resourceVersion": "1"}});
        cluster.apply("", "team", decode::<SlimNamespace>(namespace));
        let queue = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": "default", "uid": "q", "resourceVersion": "1"},
            "spec": {"namespaceSelector": {}, "defaultFor": {}}});
        cluster.apply("", "default", decode::<TrainingQueue>(queue));
        cluster.load_policies(None);
        cluster.context.cache.mark_kind_synced();
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client, Leadership::for_test());
        let committer = Committer::new(cluster.context.clone(), commands);
        tokio::spawn(Driver::new(committer, events).run());
        cluster
    }

    /// Loads the policies of a fresh install, and one more.
    fn load_policies(&self, more: Option<&ClusterJobPolicy>) {
        let mut objects = starter_set::starter_objects();
        objects.extend(more.map(PolicyObject::from));
        let (policies, _) = PolicyLoader::new().unwrap().load(None, objects);
        self.context.cache.policies.replace(Arc::new(policies));
    }

    fn apply<K>(&self, namespace: &str, name: &str, object: K)
    where
        WatchSink: Sink<K>,
    {
        self.sink.apply(Key::new(namespace, name), object);
    }

    fn node(&self, name: &str) -> SlimNode {
        decode(
            json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}}}),
        )
    }

    async fn plan(&self, jobs: Vec<Value>) -> (Vec<Outcome>, Priorities) {
        let snapshot = snapshot::request(&self.context).await.unwrap();
        let context = self.context.clone();
        let jobs: Vec<TrainingJob> = jobs.into_iter().map(decode).collect();
        let requester = Requester {
            user: "ann".to_owned(),
            groups: BTreeSet::new(),
        };
        let planned = trellis_machine::threads::spawn_blocking(move || {
            let planner = Planner {
                context: &context,
                settings: &Arc::default(),
                snapshot: &snapshot,
                requester: Some(requester),
            };
            planner.plan(jobs).unwrap()
        });
        planned.await.unwrap()
    }
}

fn job(name: &str, pods: i64, gpus: i64) -> Value {
    json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"taskGroups": [{"name": "worker", "replicas": pods, "gpus": gpus,
            "image": "example.com/train@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}]}})
}

fn waits_for(planned: &Outcome, reason: Reason) {
    let found = (planned.verdict, planned.reason);
    assert_eq!(found, (PlanVerdict::Waits, Some(reason)), "{planned:?}");
}

#[tokio::test]
async fn job_with_room_runs_on_the_nodes_of_the_scheduler() {
    let cluster = Cluster::new(&["a", "b", "c"]);
    let (jobs, _) = cluster.plan(vec![job("llm", 2, 8)]).await;
    let planned = &jobs[0];
    assert_eq!(planned.verdict, PlanVerdict::Runs, "{planned:?}");
    assert_eq!(planned.nodes, Some(2));
    let group = &planned.task_groups[0];
    assert_eq!((group.name.as_str(), group.pods), ("worker", 2));
    assert_eq!(group.nodes.len(), 2, "{group:?}");
    assert_eq!(planned.queue.as_deref(), Some("default"));
    assert!(
        planned
            .objects
            .contains(&"Pods llm-worker-0..1 (2)".to_owned()),
        "{planned:?}"
    );
}

#[tokio::test]
async fn job_without_room_gets_an_explanation_and_the_largest_smaller_shape() {
    let cluster = Cluster::new(&["a", "b", "c"]);
    let (jobs, _) = cluster.plan(vec![job("llm", 5, 8)]).await;
    let planned = &jobs[0];
    waits_for(planned, Reason::ExceedsCluster);
    let explanation = planned.explanation.as_ref().unwrap();
    assert_eq!(explanation.task_groups[0].room, 3);
    assert_eq!(
        planned.smaller_shapes[0].field,
        "spec.taskGroups[worker].replicas"
    );
    assert_eq!(planned.smaller_shapes[0].value, "3");
    assert!(planned.task_groups.is_empty() && planned.nodes.is_none());
    // The shape that the plan names starts, and the next larger one does not.
    let (jobs, _) = cluster.plan(vec![job("llm", 3, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs);
    let (jobs, _) = cluster.plan(vec![job("llm", 4, 8)]).await;
    assert_ne!(jobs[0].verdict, PlanVerdict::Runs);
}

#[tokio::test]
async fn elastic_job_gets_a_smaller_minimum() {
    let cluster = Cluster::new(&["a", "b"]);
    let mut elastic = job("llm", 8, 8);
    elastic["spec"]["taskGroups"][0]["minReplicas"] = json!(4);
    let (jobs, _) = cluster.plan(vec![elastic]).await;
    let shape = &jobs[0].smaller_shapes[0];
    assert_eq!(shape.field, "spec.taskGroups[worker].minReplicas");
    assert_eq!(shape.value, "2");
}

#[tokio::test]
async fn jobs_of_one_plan_share_the_room_in_their_order() {
    let cluster = Cluster::new(&["a", "b"]);
    let (jobs, _) = cluster
        .plan(vec![job("first", 1, 8), job("second", 2, 8)])
        .await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs, "{:?}", jobs[0]);
    waits_for(&jobs[1], Reason::InsufficientCapacity);
    let (jobs, _) = cluster
        .plan(vec![job("second", 2, 8), job("first", 1, 8)])
        .await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs, "{:?}", jobs[0]);
    waits_for(&jobs[1], Reason::InsufficientCapacity);
}

#[tokio::test]
async fn policy_judges_the_caller_and_the_objects_are_named_anyway() {
    let cluster = Cluster::new(&["a"]);
    let forbidden = |user: &str| {
        decode::<ClusterJobPolicy>(
            json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
            "metadata": {"name": "people"}, "spec": {"cedar": format!(
                "@id(\"people\")\n@reason(\"not {user}\")\nforbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when {{ context has requester && context.requester.user == \"{user}\" }};")}}),
        )
    };
    cluster.load_policies(Some(&forbidden("ann")));
    let (jobs, _) = cluster.plan(vec![job("llm", 1, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Refused, "{:?}", jobs[0]);
    assert_eq!(jobs[0].reason, Some(Reason::PolicyDenied));
    assert!(jobs[0].message.as_ref().unwrap().contains("people"));
    assert!(!jobs[0].objects.is_empty());
    cluster.load_policies(Some(&forbidden("bob")));
    let (jobs, _) = cluster.plan(vec![job("llm", 1, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs, "{:?}", jobs[0]);
}

#[tokio::test]
async fn suspended_and_foreign_jobs_wait_for_their_manager() {
    let cluster = Cluster::new(&["a"]);
    let mut suspended = job("llm", 1, 8);
    suspended["spec"]["suspend"] = json!(true);
    let mut foreign = job("other", 1, 8);
    foreign["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    let (jobs, _) = cluster.plan(vec![suspended, foreign]).await;
    waits_for(&jobs[0], Reason::Suspended);
    waits_for(&jobs[1], Reason::NotApplicable);
    assert_eq!(jobs[0].explanation, None);
}

#[tokio::test]
async fn resource_quota_without_room_for_the_gang_keeps_it_waiting() {
    let cluster = Cluster::new(&["a", "b"]);
    let quota: ResourceQuota = decode(json!({
        "metadata": {"name": "gpus", "namespace": "team", "uid": "r", "resourceVersion": "1"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
        "status": {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": "0"}}}));
    cluster.apply("team", "gpus", quota);
    let (jobs, _) = cluster.plan(vec![job("llm", 2, 8)]).await;
    waits_for(&jobs[0], Reason::ResourceQuotaExceeded);
    assert_eq!(jobs[0].explanation, None, "the engine would start it");
    // The second job of a plan finds the room of the first one taken.
    let (jobs, _) = cluster.plan(vec![job("a", 1, 8), job("b", 1, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs);
    waits_for(&jobs[1], Reason::ResourceQuotaExceeded);
}

/// Stores a job that runs on these nodes, one pod of 8 GPUs each.
async fn run_job(cluster: &Cluster, name: &str, nodes: &[&str]) {
    let uid = format!("uid-{name}");
    let mut stored = job(name, nodes.len().try_into().unwrap(), 8);
    stored["metadata"]["uid"] = json!(uid);
    stored["metadata"]["resourceVersion"] = json!("1");
    stored["status"] = json!({"phase": "Running", "attempt": 1});
    let stored: TrainingJob = decode(stored);
    let built = trellis_controller::build_unstored_job(
        &cluster.context.cache,
        stored.clone(),
        None,
        cluster.context.cache.policies.active(),
        &Arc::default(),
    );
    let owner = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": name,
        "uid": uid, "controller": true});
    let mut group = built.compiled.unwrap().pod_group();
    group.metadata = decode(
        json!({"name": name, "namespace": "team", "uid": format!("group-{name}"),
        "resourceVersion": "1", "ownerReferences": [owner]}),
    );
    let assignments: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| json!({"group": "worker", "node": node, "firstIndex": index, "count": 1}))
        .collect();
    group.status = Some(decode(json!({"phase": "Placed", "plan": {
        "attempt": 1, "hash": "plan", "generation": 1, "compiled": "c", "queue": "default", "priority": 0,
        "assignments": assignments}})));
    cluster.apply("team", name, stored);
    cluster.apply::<PodGroup>("team", name, group);
    for (index, node) in nodes.iter().enumerate() {
        let pod_name = format!("{name}-worker-{index}");
        let pod: SlimPod = decode(json!({
            "metadata": {"name": pod_name, "namespace": "team", "uid": pod_name, "resourceVersion": "1",
                "labels": {"trellis.dev/job": name}, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "main",
                "resources": {"requests": {"nvidia.com/gpu": "8"}}}]},
            "status": {"phase": "Running"}}));
        cluster.apply("team", &pod_name, pod);
    }
    // The scheduler restores its state. Then it waits until the controller has looked at the job.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let looked_at = SchedulerEvent::Undecided(Key::new("team", name));
    cluster.context.send_event(looked_at);
}

#[tokio::test]
async fn unchanged_job_keeps_its_place_and_a_changed_one_may_use_its_own_room() {
    let cluster = Cluster::new(&["a", "b"]);
    run_job(&cluster, "llm", &["b"]).await;
    let (jobs, _) = cluster.plan(vec![job("llm", 1, 8)]).await;
    assert_eq!(
        jobs[0].notes,
        ["it holds these nodes already"],
        "{:?}",
        jobs[0]
    );
    assert_eq!(jobs[0].task_groups[0].nodes[0].node, "b");
    // Both nodes are free for the changed job, and only one of them for another job.
    let (jobs, _) = cluster.plan(vec![job("llm", 2, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Runs, "{:?}", jobs[0]);
    let (jobs, _) = cluster.plan(vec![job("next", 2, 8)]).await;
    waits_for(&jobs[0], Reason::InsufficientCapacity);
    assert_eq!(jobs[0].smaller_shapes[0].value, "1");
}

#[tokio::test]
async fn ended_job_does_not_run_again() {
    let cluster = Cluster::new(&["a"]);
    let mut stored = job("llm", 1, 8);
    stored["metadata"]["uid"] = json!("u");
    stored["metadata"]["resourceVersion"] = json!("1");
    stored["status"] = json!({"phase": "Complete", "reason": "Complete", "attempt": 1});
    cluster.apply::<TrainingJob>("team", "llm", decode(stored));
    let (jobs, _) = cluster.plan(vec![job("llm", 1, 8)]).await;
    assert_eq!(jobs[0].verdict, PlanVerdict::Ended, "{:?}", jobs[0]);
}

#[test]
fn caller_without_rights_sees_no_node_and_no_job_of_another_namespace() {
    let victim = |namespace: &str| json!({"namespace": namespace, "name": "sweep", "because": "lower priority"});
    let mut planned: Outcome = decode(json!({
        "namespace": "team", "name": "llm", "verdict": "Runs", "nodes": 2,
        "taskGroups": [{"name": "worker", "pods": 2, "nodes": [{"node": "a", "pods": 2}]}],
        "claims": [{"claim": "data", "node": "a"}],
        "preempts": [victim("team"), victim("other"), victim("shown")]}));
    assert_eq!(
        redaction::foreign_namespaces(&planned),
        BTreeSet::from(["other".to_owned(), "shown".to_owned()])
    );
    let hidden = JobRef {
        namespace: "other".to_owned(),
        name: "sweep".to_owned(),
    };
    let sees = VisibleScope {
        namespaces: BTreeSet::from(["shown".to_owned()]),
        ..VisibleScope::default()
    };
    redaction::redact(&mut planned, &BTreeMap::from([(hidden, 7)]), &sees);
    let text = serde_json::to_string(&planned).unwrap();
    assert!(!text.contains("\"a\"") && !text.contains("other"), "{text}");
    assert_eq!(planned.preempts.len(), 2);
    assert_eq!(
        (
            planned.preempts_others[0].count,
            planned.preempts_others[0].priority
        ),
        (1, Some(7))
    );
    assert_eq!((planned.task_groups[0].pods, planned.nodes), (2, Some(2)));
}
