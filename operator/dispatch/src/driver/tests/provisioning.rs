//! Ends of orders of new nodes.

use k8s_openapi::jiff::SignedDuration;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use trellis_api::ResourceFlavor;
use trellis_api::pod_group::{FlavorNodes, PodGroupPhase, PodGroupStatus};
use trellis_gang::observed::UnhealthyRules;
use trellis_gang::{engine, journal};
use trellis_machine::clock;
use trellis_scheduler::{FlavorName, WaitReason};

use super::*;
use crate::task_outcome::TaskOutcome;

/// Returns the samples of `trellis_node_orders_total`, without those of no orders.
fn counted_orders(driver: &Driver) -> Vec<String> {
    let mut registry = Registry::with_prefix("trellis");
    driver.committer.context().metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let samples = text
        .lines()
        .filter_map(|line| line.strip_prefix("trellis_node_orders_total"));
    samples.map(str::to_owned).collect()
}

/// Returns a driver that has taken over the order of two nodes of the job "team-a/llm".
fn driver_with_order() -> (Driver, Key) {
    driver_with_order_of_epoch(0)
}

/// Like [`driver_with_order`]. A leader of this many epochs ago has made the order.
fn driver_with_order_of_epoch(ago: i64) -> (Driver, Key) {
    let (mut driver, sink) = driver_with_job();
    let job = Key::new("team-a", "llm");
    let run = desired_run(1);
    let nodes = vec![FlavorNodes {
        flavor: "h100".to_owned(),
        count: 2,
    }];
    let now = clock::now();
    let times = (
        now,
        now.saturating_add(SignedDuration::from_hours(1)).unwrap(),
    );
    let order = journal::build_provisioning(run.attempt().unwrap(), Vec::new(), nodes, times);
    driver.inheritance.add_job(job.clone());
    driver.inheritance.add_plan(job.clone(), order.hash.clone());
    let journal = PodGroupStatus {
        phase: Some(PodGroupPhase::Provisioning),
        epoch: Some(
            driver
                .committer
                .commands()
                .epoch()
                .unwrap()
                .0
                .saturating_sub(ago),
        ),
        provisioning: Some(order),
        ..PodGroupStatus::default()
    };
    sink.apply(
        job.clone(),
        pod_group(serde_json::to_value(&journal).unwrap()),
    );
    handle_events(&mut driver, &job, Some(run));
    driver.advance(&job);
    (driver, job)
}

fn handle_events(driver: &mut Driver, job: &Key, desired: Option<DesiredGang>) {
    let mut to_advance = BTreeSet::new();
    let mut events = driver.events.take_all();
    events.push(judged(driver, job));
    events.push(SchedulerEvent::DesiredGang(job.clone(), desired));
    for event in events {
        driver.handle_event(event, &mut to_advance);
    }
}

#[tokio::test]
async fn order_of_a_waiting_gang_is_not_counted() {
    let (driver, job) = driver_with_order();
    assert!(driver.engine.provisioning(&engine::gang_id(&job)).is_some());
    assert!(counted_orders(&driver).is_empty());
}

/// The next decision may come before this leader has written its epoch to the journal.
#[tokio::test]
async fn order_of_an_earlier_leader_is_known_before_the_first_decision() {
    let (driver, job) = driver_with_order_of_epoch(1);
    assert!(!driver.inheritance.awaits_adoption());
    assert!(driver.engine.provisioning(&engine::gang_id(&job)).is_some());
}

/// The ResourceQuotas of the namespace have room for one of two jobs.
#[tokio::test]
async fn order_holds_namespace_quota_until_it_ends() {
    let (mut driver, job) = driver_with_order();
    let promised = |driver: &Driver| -> i64 {
        let other = Key::new("team-a", "waits");
        let plans = driver.committer.open_plans();
        let demands = plans.other_demands(&other, |_, plan| plan.total_demand());
        demands.iter().map(QuotaDemand::count).sum()
    };
    assert_eq!(promised(&driver), 1);
    driver.handle_event(
        SchedulerEvent::TaskEnded(job.clone(), TaskOutcome::Done),
        &mut BTreeSet::new(),
    );
    assert_eq!(promised(&driver), 1, "the nodes have not come yet");
    driver.gangs.get_mut(&job).unwrap().task = None;
    handle_events(&mut driver, &job, None);
    assert_eq!(promised(&driver), 0);
}

/// Returns a driver whose job "team-a/llm" has just got an order of nodes, which is being written.
fn driver_with_unwritten_order() -> (Driver, Key, Arc<WatchSink>) {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    let namespace = Some("capacity".to_owned());
    let (context, events) = Context::with_settings(UnhealthyRules::default(), namespace);
    let commands = Commands::new(client, Leadership::for_test());
    let mut driver = Driver::new(Committer::new(context, commands), events);
    let sink = WatchSink::new(driver.committer.context());
    let quota = [("cpu", "1k"), ("memory", "1Pi"), ("nvidia.com/gpu", "100")];
    let resources =
        quota.map(|(name, amount)| serde_json::json!({"name": name, "nominalQuota": amount}));
    let queue: TrainingQueue = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "provisioning": {"order": "Nominal", "afterSeconds": 0},
            "resourceGroups": [{"coveredResources": quota.map(|(name, _)| name),
                "flavors": [{"name": "h100", "resources": resources}]}]},
    }));
    sink.apply(Key::new("", "default"), queue);
    let flavor: ResourceFlavor = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": "h100", "uid": "f", "resourceVersion": "1"},
        "spec": {"provisioning": {"by": "Placeholders", "maxNodes": 4, "node": {"allocatable":
            {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}}}},
    }));
    sink.apply(Key::new("", "h100"), flavor);
    let job = Key::new("team-a", "llm");
    let object: TrainingJob = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a", "uid": "mine"},
        "spec": {"taskGroups": []},
    }));
    sink.apply(job.clone(), object);
    handle_events(&mut driver, &job, Some(desired_run(1)));
    driver.enqueue(&job, &PodGroupStatus::default());
    driver.decide();
    (driver, job, sink)
}

/// Admission or a ResourceQuota may refuse an order until it is in the journal.
#[tokio::test]
async fn status_names_an_order_once_it_is_in_the_journal() {
    let (mut driver, job, sink) = driver_with_unwritten_order();
    let context = driver.committer.context().clone();
    let reason = || Some(context.explanations.read().get(&job)?.reason);
    let waits = driver.engine.explanation(&engine::gang_id(&job)).unwrap();
    assert_eq!(waits.reason, WaitReason::Provisioning);
    assert!(driver.gangs[&job].task.is_some(), "the order is written");
    assert_eq!(reason(), None);

    let run = desired_run(1);
    let now = clock::now();
    let times = (
        now,
        now.saturating_add(SignedDuration::from_hours(1)).unwrap(),
    );
    let order = journal::build_provisioning(run.attempt().unwrap(), Vec::new(), Vec::new(), times);
    let status = PodGroupStatus {
        phase: Some(PodGroupPhase::Provisioning),
        epoch: Some(driver.committer.commands().epoch().unwrap().0),
        provisioning: Some(order),
        ..PodGroupStatus::default()
    };
    sink.apply(
        job.clone(),
        pod_group(serde_json::to_value(&status).unwrap()),
    );
    driver.gangs.get_mut(&job).unwrap().task = None;
    driver.advance(&job);
    assert_eq!(reason(), Some(Reason::Provisioning));

    // A failure to create the objects of the order is not hidden by the next try.
    let failure = GangExplanation::waiting(Reason::BackingOff, "the kind is missing".into());
    driver.record_explanation(&job, failure);
    let orders = &context.node_orders;
    orders.mark_incomplete(status.provisioning.unwrap().hash);
    driver.gangs.get_mut(&job).unwrap().task = None;
    driver.advance(&job);
    assert_eq!(reason(), Some(Reason::BackingOff));
}

#[tokio::test]
async fn order_of_a_suspended_job_is_counted_as_withdrawn_once() {
    let (mut driver, job) = driver_with_order();
    handle_events(
        &mut driver,
        &job,
        Some(DesiredGang::stop(Reason::Suspended)),
    );
    // The journal is written by the second step at the latest.
    for _ in 0..2 {
        driver.gangs.get_mut(&job).unwrap().task = None;
        driver.advance(&job);
    }
    assert_eq!(
        counted_orders(&driver),
        ["{flavor=\"h100\",outcome=\"withdrawn\"} 1"]
    );
}

#[tokio::test]
async fn order_of_a_deleted_job_is_counted_as_withdrawn() {
    let (mut driver, job) = driver_with_order();
    driver.gangs.get_mut(&job).unwrap().task = None;
    handle_events(&mut driver, &job, None);
    assert_eq!(
        counted_orders(&driver),
        ["{flavor=\"h100\",outcome=\"withdrawn\"} 1"]
    );
}

/// The objects of the order are being created when its time is over. Then the write of its end
/// conflicts.
#[tokio::test]
async fn failure_of_an_order_is_kept_until_its_end_is_written() {
    let (mut driver, job) = driver_with_order();
    let id = engine::gang_id(&job);
    let provisioning = driver.engine.provisioning(&id).cloned().unwrap();
    assert!(driver.gangs[&job].task.is_some(), "objects are created");
    driver.end_provisioning(&job, &provisioning, true);
    let conflict = TaskOutcome::Retry("the PodGroup has changed".to_owned());
    for outcome in [TaskOutcome::Done, conflict] {
        let event = SchedulerEvent::TaskEnded(job.clone(), outcome);
        driver.handle_event(event, &mut BTreeSet::new());
        let failure = driver.gangs[&job].order_failure.as_ref().unwrap();
        let text = "no new node of flavor \"h100\" came in time; Trellis ends the order";
        assert!(failure.message.starts_with(text), "{}", failure.message);
        assert_eq!(
            failure.hash,
            driver
                .committer
                .context()
                .journaled_order(&job)
                .unwrap()
                .hash
        );
        driver.write_order_end(&job);
        assert!(driver.gangs[&job].task.is_some(), "the end is written");
    }
}

/// Returns a driver that knows the flavor `h100`, which may grow, and the job "team-a/llm". The
/// operator orders nodes only with a namespace of placeholders.
fn driver_with_growing_flavor() -> (Driver, Key) {
    let (mut driver, sink) = driver_with_job();
    let flavor: ResourceFlavor = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": "h100", "uid": "f", "resourceVersion": "1"},
        "spec": {"provisioning": {"by": "Placeholders", "maxNodes": 4,
            "node": {"allocatable": {"cpu": 8}}}},
    }));
    sink.apply(Key::new("", "h100"), flavor);
    let event = SchedulerEvent::Flavor("h100".into());
    driver.handle_event(event, &mut BTreeSet::new());
    (driver, Key::new("team-a", "llm"))
}

/// Prometheus sees no increase in a new counter.
#[tokio::test]
async fn counters_of_a_growing_flavor_exist_before_its_first_order_ends() {
    let (driver, _) = driver_with_growing_flavor();
    let mut counters = counted_orders(&driver);
    counters.sort_unstable();
    assert_eq!(
        counters,
        [
            "{flavor=\"h100\",outcome=\"late\"} 0",
            "{flavor=\"h100\",outcome=\"used\"} 0",
            "{flavor=\"h100\",outcome=\"withdrawn\"} 0",
        ]
    );
}

#[tokio::test]
async fn job_of_an_operator_that_orders_no_nodes_is_told_so() {
    let (mut driver, job) = driver_with_growing_flavor();
    assert_eq!(driver.committer.context().node_orders.namespace(), None);
    handle_events(&mut driver, &job, Some(desired_run(1)));
    driver.enqueue(&job, &PodGroupStatus::default());
    let snapshot = driver.engine.snapshot();
    let id = engine::gang_id(&job);
    let gang = snapshot.gangs.iter().find(|gang| gang.gang.id == id);
    let denied = &gang.unwrap().gang.denied_flavors;
    let message = &denied[&FlavorName::new("h100")];
    assert!(message.contains("provisioning.enabled"), "{message}");
}

/// The nodes of one flavor came, and those of the other flavor did not.
#[tokio::test]
async fn late_order_counts_for_the_flavors_whose_nodes_are_missing() {
    let (mut driver, job) = driver_with_order();
    let id = engine::gang_id(&job);
    let mut provisioning = driver.engine.provisioning(&id).cloned().unwrap();
    provisioning.wanted.insert(FlavorName::new("cpu"), 1);
    driver.end_provisioning(&job, &provisioning, true);
    let mut counted = counted_orders(&driver);
    counted.sort_unstable();
    assert_eq!(
        counted,
        [
            "{flavor=\"cpu\",outcome=\"withdrawn\"} 1",
            "{flavor=\"h100\",outcome=\"late\"} 1",
        ]
    );
}
